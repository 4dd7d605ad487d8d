//go:build unix && !linux

package main

import "syscall"

// diesWithParent does nothing: only Linux can.
func diesWithParent(*syscall.SysProcAttr) {}

// kin does nothing on this system: a command in relock's group is signalled alone, without its descendants.
type kin struct{ adopts bool }

func adopt() bool { return false }

func (kin) addDescendants(int, int) {}

func (kin) send(syscall.Signal) {}

func (kin) anyLives() bool { return false }
