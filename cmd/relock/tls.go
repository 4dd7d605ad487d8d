package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/redis/rueidis"
)

// apply sets in opt what the URL does not.
func (s *secrets) apply(opt *rueidis.ClientOption) error {
	if opt.Username == "" {
		opt.Username = s.User
	}
	if opt.Password == "" {
		if s.unread != nil {
			return s.unread
		}
		opt.Password = s.Password
	}
	if s.TLS && opt.TLSConfig == nil {
		opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // without ServerName the dialled name is verified
	}
	if opt.TLSConfig == nil {
		return nil
	}
	if err := s.secure(opt.TLSConfig); err != nil {
		return err
	}
	if opt.Sentinel.MasterSet != "" {
		opt.Sentinel.TLSConfig = opt.TLSConfig.Clone() // the URL is a Sentinel's
	}
	return nil
}

// secure sets certificates and the server's name in cfg.
func (s *secrets) secure(cfg *tls.Config) error {
	cfg.InsecureSkipVerify = cfg.InsecureSkipVerify || s.Insecure
	if s.SNI != "" {
		cfg.ServerName = s.SNI
	}
	if s.CACert != "" {
		text, err := os.ReadFile(s.CACert)
		if err != nil {
			return fmt.Errorf("the authorities' certificates (-cacert): %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("the authorities' certificates (-cacert): %s has none in PEM", s.CACert)
		}
	}
	if (s.Cert == "") != (s.Key == "") {
		return errors.New("-cert and -key go together: the client's certificate and its key")
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return fmt.Errorf("the client's certificate (-cert and -key): %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return nil
}
