//go:build !linux

package envoy

import "syscall"

func attributes() *syscall.SysProcAttr { return new(syscall.SysProcAttr) }
