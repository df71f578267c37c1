package envoy

import "syscall"

// attributes have the kernel end it when the thread that started it ends: with
// the program, if the program's threads do not end before.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
