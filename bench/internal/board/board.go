//go:build unix

// Package board is memory that all processes of a run share. Every holder of a lock marks itself there. So two holders
// of one lock at the same time are found, in whichever processes they run.
package board

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// slotSize is a cache line. It has the holder's id, and the time when the last holder left.
const slotSize = 64

// Board has a slot for each watched lock. A semaphore's has the number of its permits that are held in place of an id.
type Board struct {
	mem []byte
}

// Create makes the file that processes share, with room for slots locks, and opens it.
func Create(path string, slots int) (*Board, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(slots) * slotSize); err != nil {
		return nil, err
	}
	return mapped(f)
}

// Open maps a file made by Create.
func Open(path string) (*Board, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return mapped(f)
}

func mapped(f *os.File) (*Board, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return &Board{mem: mem}, nil
}

// Close unmaps the board. Nobody may use it any more.
func (b *Board) Close() error { return syscall.Munmap(b.mem) }

func (b *Board) inside(slot int) *atomic.Int64 { return b.word(slot, 0) }
func (b *Board) left(slot int) *atomic.Int64   { return b.word(slot, 1) }

func (b *Board) word(slot, n int) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Pointer(&b.mem[slot*slotSize+8*n]))
}

// Enter marks id, which is unique and not 0, as the holder of slot's lock. It returns false if another holder is still
// marked.
func (b *Board) Enter(slot int, id int64) bool { return b.inside(slot).Swap(id) == 0 }

// Exit removes the mark, just before id unlocks. It returns false if another holder has entered meanwhile.
func (b *Board) Exit(slot int, id int64) bool {
	b.left(slot).Store(Now())
	return b.inside(slot).CompareAndSwap(id, 0)
}

// Acquire marks k more permits of slot's semaphore as held. It returns false if more than n are held now.
func (b *Board) Acquire(slot, n, k int) bool { return b.inside(slot).Add(int64(k)) <= int64(n) }

// Release removes the marks of k permits, just before they are given back.
func (b *Board) Release(slot, k int) { b.inside(slot).Add(int64(-k)) }

// LastExit returns when the last holder of slot called Exit, by Now; 0 if none has.
func (b *Board) LastExit(slot int) int64 { return b.left(slot).Load() }

// Clear empties a slot whose holder was killed.
func (b *Board) Clear(slot int) {
	b.inside(slot).Store(0)
	b.left(slot).Store(0)
}

// clockZero ties the process's monotonic clock to the wall clock, once. The processes of a machine so share a clock that
// does not jump when the wall clock is set.
var clockZero = time.Now()

// Now is the time in nanoseconds on a clock that all processes of the machine share.
func Now() int64 { return clockZero.UnixNano() + int64(time.Since(clockZero)) }

// Time is the local time at which Now returned ns.
func Time(ns int64) time.Time { return clockZero.Add(time.Duration(ns - clockZero.UnixNano())) }
