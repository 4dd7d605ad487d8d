package relockui

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/operator"
)

// maxForm is how long a form may be, in bytes.
const maxForm = 1 << 10

// question is the page that asks before a lock is freed by force.
type question struct {
	frame
	operator.Sighting
	Name  string
	Grant string // grantOf the hold that the viewer agrees to end
}

// grantOf returns a text that identifies the grant of a held lock. It is a hash in hex, since an owner
// field may have characters that a browser's form changes.
func grantOf(s *operator.Sighting) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", s.Token, s.Holder))
	return hex.EncodeToString(sum[:])
}

func (p *page) askToForce(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if s, found := p.heldNow(w, r, name); found {
		send(w, http.StatusOK, "force",
			&question{frame: p.frame("Free " + operator.Plain(name) + "?"), Sighting: s, Name: name, Grant: grantOf(&s)})
	}
}

// heldNow reads the state of a lock anew, not from a shared look. If no owner holds the lock, or it cannot
// be read, it sends a message and returns false.
func (p *page) heldNow(w http.ResponseWriter, r *http.Request, name string) (operator.Sighting, bool) {
	s, err := p.reader.One(r.Context(), name)
	switch {
	case errors.Is(err, relock.ErrInvalidName):
		p.refuse(w, http.StatusNotFound, "There is no such lock: "+err.Error(), "")
	case err != nil:
		p.refuse(w, http.StatusBadGateway, "Redis cannot be read: "+err.Error(), name)
	case !s.Held && s.Nodes == 0:
		p.refuse(w, http.StatusConflict, "Nobody holds "+operator.Plain(name)+" any more. Nothing was done.", name)
	default:
		return s, true
	}
	return s, false
}

// forceOpen frees a lock if it still has the grant that the viewer was shown and agreed to free. A new
// grant between this check and the command is freed too.
func (p *page) forceOpen(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	name, grant := r.URL.Query().Get("name"), r.PostFormValue("grant")
	if name == "" || grant == "" {
		p.refuse(w, http.StatusBadRequest, "A lock is freed only after the question that names it.", name)
		return
	}
	s, found := p.heldNow(w, r, name)
	if !found {
		return
	}
	if grantOf(&s) != grant {
		p.refuse(w, http.StatusConflict, operator.Plain(name)+" is held by somebody else now. Nothing was done.", name)
		return
	}
	freed, err := operator.Force(r.Context(), p.locks, name)
	p.log.WarnContext(r.Context(), "lock forced open",
		"lock", name, "holder", s.Holder, "freed", freed, "error", err, "by", r.RemoteAddr)
	p.list.stale()
	p.viewOf(name).stale()
	switch {
	case err != nil:
		p.refuse(w, http.StatusBadGateway, operator.Plain(name)+" was not freed: "+err.Error(), name)
	case !freed:
		p.refuse(w, http.StatusConflict, "Nobody holds "+operator.Plain(name)+" any more. Nothing was done.", name)
	default:
		text := operator.Plain(name) + " was taken from " + s.HolderText() + "."
		send(w, http.StatusOK, "message", message{frame: p.frame("Freed"), Text: text, Lock: name})
	}
}
