package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/internal/operator"
)

// live shows the board on a terminal. It draws by tcell, which has a screen for tests, and needs half
// as many modules as bubbletea.
type live struct {
	board  board
	redis  *access
	reader *operator.Reader
	match  string
	every  time.Duration
	screen tcell.Screen

	looks  chan look
	frees  chan string // outcome of a forced unlock, as a note for the board
	busy   bool        // a look is under way
	wholly time.Time   // when the last look at all locks ended
}

// look is the result of a look.
type look struct {
	seen  []operator.Sighting
	all   bool // at all locks, not only at those on the screen
	began time.Time
	took  time.Duration
	err   error
}

// thrift spares Redis: after a look at all locks, the next comes no sooner than thrift times its
// duration later.
const thrift = 10

// run shows the board until the user leaves.
func (l *live) run() error {
	if err := l.screen.Init(); err != nil {
		return err
	}
	defer l.screen.Fini()
	l.looks, l.frees = make(chan look, 1), make(chan string, 1)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	var jobs sync.WaitGroup
	defer jobs.Wait()
	defer cancel()
	events, quit := make(chan tcell.Event, 16), make(chan struct{})
	jobs.Go(func() { l.screen.ChannelEvents(events, quit) })
	defer close(quit)
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	l.draw()
	l.look(ctx, &jobs)
	for ; ; l.draw() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.look(ctx, &jobs)
		case got := <-l.looks:
			l.take(got)
		case note := <-l.frees:
			l.board.note = note
			l.look(ctx, &jobs)
		case event := <-events:
			switch l.event(event) {
			case wishQuit:
				return nil
			case wishForce:
				l.force(&jobs)
			}
		}
	}
}

// look reads locks in the background: all if the last look at all is long enough ago, else the ones on
// the screen.
func (l *live) look(ctx context.Context, jobs *sync.WaitGroup) {
	if l.busy {
		return
	}
	l.busy = true
	all := l.wholly.IsZero() || time.Since(l.wholly) >= thrift*l.board.took
	names := l.board.visible()
	jobs.Go(func() {
		got := look{all: all, began: time.Now()}
		if all {
			got.seen, got.err = l.reader.All(ctx, l.match)
		} else if len(names) > 0 {
			got.seen, got.err = l.reader.These(ctx, names)
		}
		got.took = time.Since(got.began)
		l.looks <- got // does not block: there is one look at a time
	})
}

// take shows the result of a look.
func (l *live) take(got look) {
	l.busy, l.board.broken = false, ""
	if got.err != nil {
		l.board.broken = cured(got.err).Error()
		return
	}
	if got.all {
		l.wholly = time.Now()
	}
	l.board.see(got.seen, got.all, got.began, got.took)
}

// force frees, in the background, the lock that the user was asked about.
func (l *live) force(jobs *sync.WaitGroup) {
	name := l.board.asked.Names.Name
	l.board.asked, l.board.note = nil, fmt.Sprintf("freeing %q ...", name)
	jobs.Go(func() {
		freed, err := force(l.redis, name)
		note := fmt.Sprintf("freed %q", name)
		switch {
		case err != nil:
			note = err.Error()
		case !freed:
			note = fmt.Sprintf("nobody held %q", name)
		}
		select {
		case l.frees <- note:
		case <-time.After(operator.AnswerTime): // run has returned
		}
	})
}

// event handles an event of the terminal.
func (l *live) event(event tcell.Event) wish {
	switch e := event.(type) {
	case *tcell.EventResize:
		l.screen.Sync()
	case *tcell.EventKey:
		return l.board.key(keyName(e))
	}
	return wishNothing
}

var keyNames = map[tcell.Key]string{
	tcell.KeyUp: keyUp, tcell.KeyDown: keyDown, tcell.KeyPgUp: keyPageUp, tcell.KeyPgDn: keyPageDown, tcell.KeyHome: keyHome,
	tcell.KeyEnd: keyEnd, tcell.KeyEnter: keyEnter, tcell.KeyEscape: keyEscape, tcell.KeyBackspace: keyBackspace,
	tcell.KeyBackspace2: keyBackspace, tcell.KeyCtrlC: keyBreak,
}

func keyName(e *tcell.EventKey) string {
	if e.Key() == tcell.KeyRune {
		return string(e.Rune())
	}
	return keyNames[e.Key()]
}

// aside is how many lines of the screen do not show a lock.
const aside = 4

// draw draws the whole board; tcell sends what has changed.
func (l *live) draw() {
	width, height := l.screen.Size()
	b := &l.board
	b.height = max(1, height-aside)
	b.move(0)
	l.screen.Clear()
	plainly := tcell.StyleDefault
	l.line(0, width, plainly.Bold(true), b.title())
	news := plainly
	if b.asked != nil || b.note != "" || b.broken != "" {
		news = plainly.Foreground(tcell.ColorYellow)
	}
	l.line(1, width, news, b.status())
	name := b.nameWidth(width - numbers*numberWidth - 2)
	l.row(2, width, name, plainly.Reverse(true), b.columns(nil))
	for i := b.top; i < min(len(b.shown), b.top+b.height); i++ {
		style := plainly
		if b.shown[i].Waiters > 0 {
			style = style.Foreground(tcell.ColorYellow)
		}
		if i == b.cursor {
			style = style.Reverse(true)
		}
		l.row(3+i-b.top, width, name, style, b.columns(&b.shown[i]))
	}
	l.line(height-1, width, plainly.Dim(true), help)
	l.screen.Show()
}

// line draws a line. tcell would send what cannot be printed to the terminal as it is.
func (l *live) line(y, width int, style tcell.Style, text string) {
	text = harmless(strings.ReplaceAll(text, "\n", "; "))
	l.screen.PutStrStyled(0, y, fmt.Sprintf("%-*s", width, cut(text, width)), style)
}

// The first columns are numbers.
const (
	numbers     = 5
	numberWidth = 9
)

// nameWidth returns the width of the names' column. rest is the width for names and holders together. If
// it is too small for both, holders get two fifths of it, or less if they need less.
func (b *board) nameWidth(rest int) int {
	name, holder := 0, 0
	for i := b.top; i < min(len(b.shown), b.top+b.height); i++ {
		texts := b.columns(&b.shown[i])
		name, holder = max(name, utf8.RuneCountInString(texts[5])), max(holder, utf8.RuneCountInString(texts[6]))
	}
	return max(0, min(name, max(rest*3/5, rest-holder-1)))
}

// row draws numbers in columns of their own, then name and holder.
func (l *live) row(y, width, name int, style tcell.Style, texts []string) {
	line := ""
	for _, text := range texts[:numbers] {
		line += fmt.Sprintf("%*s ", numberWidth-1, cut(text, numberWidth-1))
	}
	line += fmt.Sprintf(" %-*s %s", name, cut(texts[5], name), texts[6])
	l.line(y, width, style, line)
}

// cut shortens text to width characters.
func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:max(0, width-1)]) + "…"
	}
	return text
}
