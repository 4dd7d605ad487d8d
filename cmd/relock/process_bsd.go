//go:build unix && !linux

package main

import "syscall"

// diesWithParent does nothing: only Linux can.
func diesWithParent(*syscall.SysProcAttr) {}

// kin are not looked for here: of a command in relock's group only itself is signalled.
type kin struct{}

func (kin) look(int) {}

func (kin) send(syscall.Signal) {}

func (kin) lives() bool { return false }
