package relock

import (
	"strings"
	"sync"
)

// maxVetted bounds how many names a client remembers of which Redis has said that its user has all rights.
const maxVetted = 1024

// vetted remembers the locks whose rights were checked. Others are checked with their next acquire: a right that only an
// unlock needs is to be missed before the lock is held.
type vetted struct {
	mu    sync.Mutex // guards names
	names map[string]bool
}

// ask returns the arguments by which a script checks the rights to a lock: three empty ones where that was done.
func (v *vetted) ask(r route, a *acquisition) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.names[a.names.lock] {
		return []string{"", "", ""}
	}
	inbox := ""
	if r.inbox != "" {
		client, _, _ := strings.Cut(a.id, ":")
		inbox = r.inbox + client
	}
	return []string{r.publish, a.names.listen, inbox}
}

// note remembers that the rights to a lock were found to be there. Where too many are known it begins anew.
func (v *vetted) note(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.names == nil || len(v.names) >= maxVetted {
		v.names = make(map[string]bool)
	}
	v.names[name] = true
}
