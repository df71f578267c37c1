package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"layover/budget"
	"layover/turnstile"
)

// database is a pool of connections with a turnstile in front of it. The pool bounds how many there are; the turnstile decides
// who is next, which the pool's own line, first come, first served, would not do well.
type database struct {
	pool *pgxpool.Pool
	gate *turnstile.Turnstile
}

func open(ctx context.Context, url string, connections int) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &database{pool: pool, gate: turnstile.New(connections)}, nil
}

// close lets those in line go, and waits for those who have a connection.
func (d *database) close() {
	d.gate.Close()
	d.pool.Close()
}

// use runs f on a connection when it is the turn of ctx's job. f must not use the database in any other way, nor wait for one
// who does: with all connections in such hands nobody would move. Whatever it begins, rows or a transaction, it must end. That
// is why it gets a connection and not the pool.
func (d *database) use(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	claim, ok := turnstile.ClaimFrom(ctx)
	if !ok {
		return errors.New("the database is used outside of a job: see turnstile.Begin")
	}
	inLine := budget.From(ctx).Phase("line") // still open if the time is over before the turn comes: then the error says so
	return d.gate.Do(ctx, claim, func() error {
		inLine()
		defer budget.From(ctx).Phase("query")()
		conn, err := d.pool.Acquire(ctx) // there is one: as many passes as connections
		if err != nil {
			return err
		}
		defer conn.Release() // before the pass goes on
		return f(conn)
	})
}
