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

// kin are the command's descendants, by process id. Once found they stay: when the command ends, the kernel
// gives them another parent, and they could not be found again.
type kin map[int]process

// process is what /proc says of a process.
type process struct {
	parent, session int
	began           string // start time, which tells it from a later process with the same id
}

// addDescendants adds the descendants of root that are in relock's session. A process that has made its own
// session is left alone.
func (k *kin) addDescendants(root int) {
	all, session := processes(), 0
	if own, ok := readProcess(os.Getpid()); ok {
		session = own.session
	}
	if *k == nil {
		*k = make(kin)
	}
	for more := true; more; {
		more = false
		for pid, p := range all {
			_, ofKin := (*k)[p.parent]
			if _, known := (*k)[pid]; !known && p.session == session && (p.parent == root || ofKin) {
				(*k)[pid] = p
				more = true
			}
		}
	}
}

// send signals all that still live.
func (k kin) send(s syscall.Signal) {
	for pid, p := range k {
		if p.lives(pid) {
			_ = syscall.Kill(pid, s)
		}
	}
}

// anyLives reports whether at least one process still lives.
func (k kin) anyLives() bool {
	for pid, p := range k {
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
