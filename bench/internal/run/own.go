package run

import (
	"context"
	"errors"
	"os/exec"
)

// OwnRedis starts a redis-server. The caller closes it.
func OwnRedis() (addr string, closes func(), err error) {
	h := &host{}
	s, err := h.start()
	if err != nil {
		h.close()
		return "", nil, err
	}
	return s.Addr(), h.close, nil
}

// OwnEtcd starts the etcd in PATH, with one member. The caller closes it.
func OwnEtcd(ctx context.Context) (addr string, closes func(), err error) {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return "", nil, errors.New("no etcd is in PATH: on Debian, install etcd-server")
	}
	e := &etcd{}
	err = e.start(path)
	if err == nil {
		err = e.connect(ctx)
	}
	if err != nil {
		e.close()
		return "", nil, err
	}
	return e.addr, e.close, nil
}
