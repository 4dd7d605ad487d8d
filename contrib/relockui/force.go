package relockui

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/operator"
)

// maxForm is how long a form may be, in bytes.
const maxForm = 1 << 14

// question is the page that asks before a lock is freed by force.
type question struct {
	frame
	operator.Sighting
	Name   string
	Grants []string // grantsOf the holds that the viewer agrees to end
}

// grantsOf returns texts that identify the grants of a held lock: one, of a semaphore one for each holder
// that was seen. They are hashes in hex, since an owner field may have characters that a browser's form
// changes.
func grantsOf(s *operator.Sighting) []string {
	owners := []string{s.Holder}
	if s.Semaphore() {
		owners = nil
		for _, h := range s.Holders {
			owners = append(owners, h.Owner)
		}
	}
	all := make([]string, len(owners))
	for i, owner := range owners {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", s.Token, owner))
		all[i] = hex.EncodeToString(sum[:])
	}
	return all
}

func (p *page) askToForce(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if s, found := p.heldNow(w, r, name); found {
		send(w, http.StatusOK,
			&question{frame: p.frame("Free " + operator.Plain(name) + "?"), Sighting: s, Name: name, Grants: grantsOf(&s)})
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

// forceOpen frees a lock if it still has the grant that the viewer was shown and agreed to free, and a
// semaphore if one of those holders still has permits. A new grant between this check and the command is
// freed too.
func (p *page) forceOpen(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	name, agreed := r.URL.Query().Get("name"), r.PostFormValue("grant")
	if name == "" || agreed == "" {
		p.refuse(w, http.StatusBadRequest, "A lock is freed only after the question that names it.", name)
		return
	}
	s, found := p.heldNow(w, r, name)
	if !found {
		return
	}
	if !slices.ContainsFunc(grantsOf(&s), func(grant string) bool { return slices.Contains(r.PostForm["grant"], grant) }) {
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
		text := operator.Plain(name) + " was taken from " + s.WhoText() + "."
		send(w, http.StatusOK, &message{frame: p.frame("Freed"), Text: text, Lock: name})
	}
}
