package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// diesWithParent has the kernel kill a process when relock dies, however that is.
func diesWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// kin are the processes that a command has started, each with what tells it from a later one of its
// number. They are known for good once they were seen: when the command ends, they have another parent.
type kin map[int]process

// process is what the kernel tells of one.
type process struct {
	parent, session int
	began           string
}

// look adds the processes that root, in the end, is a parent of. Those in another session are on their own.
func (k *kin) look(root int) {
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

// send signals those that live.
func (k kin) send(s syscall.Signal) {
	for pid, p := range k {
		if p.lives(pid) {
			_ = syscall.Kill(pid, s)
		}
	}
}

// lives reports whether one of them does.
func (k kin) lives() bool {
	for pid, p := range k {
		if p.lives(pid) {
			return true
		}
	}
	return false
}

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

// readProcess returns false for a process that has ended, waited for or not.
func readProcess(pid int) (p process, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // a name may have blanks and brackets; from the state on
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return p, false
	}
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.session, _ = strconv.Atoi(string(fields[3]))
	p.began = string(fields[19])
	return p, true
}
