package postgres

import "syscall"

// attributes lets the kernel stop what we started if we are gone. SIGQUIT is PostgreSQL's immediate shutdown: the server ends its
// sessions and itself; initdb dies of it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} }
