// Command path prints where the Envoy is that tests use, and gets it if it is
// not there yet.
package main

import (
	"context"
	"fmt"
	"os"

	"layover/e2e/envoy"
)

func main() {
	path, err := envoy.Find(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
