package crew_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"layover/crew"
	"layover/turnstile"
)

// inbox is work in plain sight: a list that anybody may look into, add to and take from.
type inbox struct {
	mu       sync.Mutex
	messages []string
}

func (b *inbox) add(message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, message)
}

func (b *inbox) take(context.Context) (message string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) == 0 {
		return "", false
	}
	message, b.messages = b.messages[0], b.messages[1:]
	return message, true
}

func Example() {
	var in inbox
	done := make(chan string)
	set := turnstile.NewSet()
	set.Resize(0, 1) // one at once
	c := crew.Start(context.Background(), set.Gate(0), 0, crew.Duty[string]{
		Take: in.take,
		Process: func(_ context.Context, message string, _ func()) {
			done <- message
		},
		Panicked: func(_ context.Context, value any, stack []byte) {
			fmt.Printf("a job panicked: %v\n%s", value, stack)
		},
	}, crew.Options{})

	in.add("hello")
	in.add("goodbye")
	c.Wake() // one is enough for any number
	fmt.Println(<-done)
	fmt.Println(<-done)
	fmt.Println(c.Drain(context.Background()))
	// Output:
	// hello
	// goodbye
	// <nil>
}

// A job that needs the bounded resource twice, and something slow in between, holds no pass while it is slow. Its second turn
// comes before the first turn of any work that was picked up later.
func ExampleDuty() {
	var in inbox
	in.add("order 7")
	set := turnstile.NewSet()
	set.Resize(0, 1) // one connection
	done := make(chan struct{})
	c := crew.Start(context.Background(), set.Gate(0), 0, crew.Duty[string]{
		Take: in.take, // with the connection
		Process: func(job context.Context, order string, release func()) {
			release()
			fmt.Println(order, "is delivered, which takes long")
			pass := turnstile.WaitTurn(job)
			defer pass.Return()
			fmt.Println(order, "is marked as done, with the connection")
			close(done)
		},
		Panicked: func(_ context.Context, value any, _ []byte) { fmt.Println(value) },
	}, crew.Options{})
	<-done
	c.Drain(context.Background())
	// Output:
	// order 7 is delivered, which takes long
	// order 7 is marked as done, with the connection
}

// A channel as the source: whoever sends calls Wake after it.
func ExampleCrew_Wake() {
	numbers := make(chan int, 8)
	set := turnstile.NewSet()
	set.Resize(0, 4)
	var (
		mu  sync.Mutex
		sum int
		all sync.WaitGroup
	)
	c := crew.Start(context.Background(), set.Gate(0), 0, crew.Duty[int]{
		Take: func(context.Context) (int, bool) {
			select {
			case n := <-numbers:
				return n, true
			default:
				return 0, false
			}
		},
		Process: func(_ context.Context, n int, _ func()) {
			defer all.Done()
			mu.Lock()
			defer mu.Unlock()
			sum += n
		},
		Panicked: func(_ context.Context, value any, _ []byte) { fmt.Println(value) },
	}, crew.Options{Max: 4})
	for n := range 8 {
		all.Add(1)
		numbers <- n
		c.Wake()
	}
	all.Wait()
	c.Drain(context.Background())
	fmt.Println(sum)
	// Output: 28
}

// A Drain whose context ends has the jobs in progress told why, by the cause of their context.
func ExampleCrew_Drain() {
	var in inbox
	in.add("endless")
	set := turnstile.NewSet()
	set.Resize(0, 1)
	began, ended := make(chan struct{}), make(chan struct{})
	c := crew.Start(context.Background(), set.Gate(0), 0, crew.Duty[string]{
		Take: in.take,
		Process: func(job context.Context, _ string, _ func()) {
			close(began)
			<-job.Done()
			fmt.Println("job:", context.Cause(job))
			close(ended)
		},
		Panicked: func(_ context.Context, value any, _ []byte) { fmt.Println(value) },
	}, crew.Options{})
	<-began

	patience, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("no time left"))
	err := c.Drain(patience)
	<-ended
	fmt.Println("Drain:", err)
	fmt.Println("Drain:", c.Drain(context.Background()))
	// Output:
	// job: no time left
	// Drain: no time left
	// Drain: <nil>
}
