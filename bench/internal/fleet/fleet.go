// Package fleet compares what three processes do together: an election beside etcd's, and a job of
// gocron's beside gocron's own lock. Each member is a process of this program.
package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// size is how many members a fleet has.
const size = 3

// patience is how long the fleet waits for what must happen.
const patience = 30 * time.Second

// member is a process.
type member struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	line  *line // to the store; nil without one
	ended chan struct{}
}

// fleet has the members. One goroutine calls its methods.
type fleet struct {
	self    string // this program
	heard   chan event
	members []*member
	started int
}

func newFleet() (*fleet, error) {
	self, err := os.Executable()
	return &fleet{self: self, heard: make(chan event, 1<<16)}, err
}

// join starts a member.
func (f *fleet) join(t task) (*member, error) {
	f.started++
	t.Name = fmt.Sprintf("member-%d", f.started)
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	m := &member{cmd: exec.Command(f.self), ended: make(chan struct{})}
	m.cmd.Env, m.cmd.Stderr = append(os.Environ(), Env+"="+string(text)), os.Stderr
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			e := event{from: m}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e.What, e.Text = failed, "it wrote "+lines.Text()
			}
			f.heard <- e
		}
		_ = m.cmd.Wait()
	}()
	f.members = append(f.members, m)
	return m, nil
}

func (m *member) signal(s syscall.Signal) error { return m.cmd.Process.Signal(s) }

// leave waits for a member that is to end, or was killed, and drops it.
func (f *fleet) leave(m *member) error {
	f.members = slices.DeleteFunc(f.members, func(other *member) bool { return other == m })
	select {
	case <-m.ended:
	case <-time.After(patience):
		_ = m.cmd.Process.Kill()
		return fmt.Errorf("process %d does not end", m.cmd.Process.Pid)
	}
	if m.line != nil {
		m.line.close()
	}
	return nil
}

// close ends all members.
func (f *fleet) close() {
	for _, m := range slices.Clone(f.members) {
		_ = m.signal(syscall.SIGTERM)
		_ = f.leave(m)
	}
}

// next returns the next event that fits. It fails if a member failed, or the event does not come.
func (f *fleet) next(what string, fits func(event) bool) (event, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case e := <-f.heard:
			switch {
			case e.What == failed:
				return e, fmt.Errorf("process %d: %s", e.from.cmd.Process.Pid, e.Text)
			case fits(e):
				return e, nil
			}
		case <-late.C:
			return event{}, fmt.Errorf("%s did not come within %v", what, patience)
		}
	}
}
