//go:build !unix

package main

import "syscall"

func ownGroup() *syscall.SysProcAttr { return new(syscall.SysProcAttr) }
