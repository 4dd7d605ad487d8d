package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// diesWithParent has the kernel kill the command when relock dies, even by SIGKILL.
func diesWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// kin are the command's descendants. Once found they stay: when their parent ends, the kernel gives them another,
// and only relock, if it adopts, would know them again.
type kin struct {
	found  map[int]process // by process id
	adopts bool            // relock is the parent of those whose parent has ended
}

// adopt makes relock the parent of each descendant whose own parent ends, as of one that a double fork puts into the
// background: otherwise it could not be told from other processes. It returns false if that cannot be. A shell that
// has children may have become relock by exec: those are not the command's, and their children could not be told
// from the command's.
func adopt() bool {
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			return false
		}
	}
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0)
	return errno == 0
}

// process is what /proc says of a process.
type process struct {
	parent, session int
	began           string // start time, which tells it from a later process with the same id
}

// addDescendants adds the descendants of root, which is relock's child, that are in relock's session. A process that
// has made its own session is left alone. What relock has adopted descends from root, and other is relock's own child.
func (k *kin) addDescendants(root, other int) {
	all, session := processes(), 0
	if own, ok := readProcess(os.Getpid()); ok {
		session = own.session
	}
	if k.found == nil {
		k.found = make(map[int]process)
	}
	ofKin := func(pid, parent int) bool {
		_, known := k.found[parent]
		return known || parent == root || k.adopts && parent == os.Getpid() && pid != root && pid != other
	}
	for more := true; more; {
		more = false
		for pid, p := range all {
			if _, known := k.found[pid]; !known && p.session == session && ofKin(pid, p.parent) {
				k.found[pid] = p
				more = true
			}
		}
	}
}

// send signals all that still live.
func (k *kin) send(s syscall.Signal) {
	for pid, p := range k.found {
		if p.lives(pid) {
			_ = syscall.Kill(pid, s)
		}
	}
}

// anyLives reports whether at least one process still lives.
func (k *kin) anyLives() bool {
	for pid, p := range k.found {
		if p.lives(pid) {
			return true
		}
	}
	return false
}

// lives reports whether pid is still this process, and not a later one.
func (p process) lives(pid int) bool {
	now, ok := readProcess(pid)
	return ok && now.began == p.began
}

func processes() map[int]process {
	all := make(map[int]process)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			if p, ok := readProcess(pid); ok {
				all[pid] = p
			}
		}
	}
	return all
}

// readProcess reads /proc. It returns false for a process that has ended, a zombie too.
func readProcess(pid int) (p process, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name may have blanks and brackets
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return p, false
	}
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.session, _ = strconv.Atoi(string(fields[3]))
	p.began = string(fields[19])
	return p, true
}
