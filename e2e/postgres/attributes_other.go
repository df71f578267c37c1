//go:build !linux

package postgres

import "syscall"

func attributes() *syscall.SysProcAttr { return new(syscall.SysProcAttr) }
