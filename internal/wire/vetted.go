package wire

import (
	"cmp"
	"strings"
	"sync"

	"github.com/relock-go/relock/internal/link"
)

const (
	// firstNames is how many names a client asks about one by one, before it asks by families. Most
	// clients lock fewer.
	firstNames = 256
	// maxFamilies bounds how many families a client remembers. Beyond it, names seem to have no
	// prefixes, and only one lock in vetEvery asks.
	maxFamilies = 1024
	// vetEvery: of so many questions for locks, one asks for rights in any case.
	vetEvery = 256
)

// vetted decides which questions for a lock also ask whether the user has all the rights that the lock
// takes.
//
// Redis refuses a script that lacks a right, whether rights were asked for or not. So no missing right
// lets two hold a lock. But if only an Unlock or a renewal needs the right, the lock is held already
// when Redis refuses, and stays until its lease ends. So rights are asked for beforehand.
//
// To ask takes Redis as long as the rest of the work for a lock that no other entry wants: too long to
// ask each time. But rights are for commands, for all names alike, or for patterns of names, most of
// which are prefixes. So rights are asked for
//
//   - for each of the first names of a client, and then for the first name of each family,
//   - for one in 256 locks, whatever is known of its name: that finds rights that were withdrawn, and
//     patterns finer than a family,
//   - for all names anew, once a holder was refused a command: others may lack the same right.
type vetted struct {
	mu       sync.Mutex // guards what follows
	asked    int        // questions for locks so far
	names    map[string]bool
	families map[string]bool
}

// ask appends the three arguments by which a script checks the rights to a lock. They are empty, and
// known is true, if it need not.
func (v *vetted) ask(args []string, way Route, e *Entry) (_ []string, known bool) {
	if v.known(e.Names.rights) {
		return append(args, "", "", ""), true
	}
	inbox := ""
	if way.Inbox != "" {
		client, _, _ := strings.Cut(e.ID, ":")
		inbox = way.Inbox + client
	}
	return append(args, way.Publish, e.Names.Listen, inbox), false
}

// known reports whether a question for a lock need not ask for rights.
func (v *vetted) known(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	switch {
	case v.asked%vetEvery == 0:
		return false
	case len(v.names) < firstNames:
		return v.names[name]
	}
	return v.families[familyOf(name)] || len(v.families) >= maxFamilies
}

// note remembers that the rights to a lock were found to be there. The first names are remembered
// one by one. From then on the rights to one name stand for those of its family: users are given
// rights by patterns.
func (v *vetted) note(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.names == nil {
		v.names, v.families = make(map[string]bool), make(map[string]bool)
	}
	if len(v.names) < firstNames {
		v.names[name] = true
	}
	if family := familyOf(name); len(v.families) < maxFamilies && !v.families[family] {
		v.families[strings.Clone(family)] = true
	}
}

// heard is told what became of a command for a lock that was held. If a right was missing, it forgets
// all names. It returns err.
func (v *vetted) heard(err error) error {
	if err != nil && ReplyCode(link.Reply(err)) == "NOPERM" {
		v.forget()
	}
	return err
}

// forget makes rights be asked for anew, for all names.
func (v *vetted) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.names, v.families = nil, nil
}

// familyOf returns the prefix that a name probably shares with others under one pattern of rights. It
// takes the part before the first digit, and cuts that after its last character that is no letter; if
// there is none, the part is kept whole. orders:4711, orders:eu and orders:be42, which may begin a
// random id, all give "orders:".
func familyOf(name string) string {
	family := ""
	for i := range len(name) {
		switch c := name[i]; {
		case '0' <= c && c <= '9':
			return cmp.Or(family, name[:i])
		case c < 'A' || 'Z' < c && c < 'a' || 'z' < c && c < 0x80:
			family = name[:i+1]
		}
	}
	return cmp.Or(family, name)
}
