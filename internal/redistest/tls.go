package redistest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// StartTLS is [Start] for a server that accepts TLS connections only, and only
// of clients with a certificate of the same throw-away authority. The returned
// configuration has both; Option and Client use it. A server that says it was
// built without TLS skips tb where tb can be skipped, else fails it.
func StartTLS(tb TB, args ...string) (*Server, *tls.Config) {
	tb.Helper()
	s := newServer(tb)
	s.newCertificates()
	s.args = slices.Concat([]string{
		"--port", "0", "--tls-port", strconv.Itoa(s.port),
		"--tls-ca-cert-file", s.tlsFile("ca.crt"), "--tls-cert-file", s.tlsFile("server.crt"), "--tls-key-file", s.tlsFile("server.key"),
	}, s.bin.flags(), args)
	s.spawn()
	s.skipWithoutTLS()
	s.awaitReady()
	return s, s.secure.Clone()
}

// ChangeCertificates has a server of [StartTLS] go on with certificates of a new throw-away authority, and trust
// that alone. It ends all connections, and returns the new configuration for clients.
func (s *Server) ChangeCertificates() *tls.Config {
	s.tb.Helper()
	old := s.ClientFor(s.tb)
	s.newCertificates()
	do := func(words ...string) {
		if err := old.Do(context.Background(), old.B().Arbitrary(words...).Build()).Error(); err != nil {
			s.tb.Fatalf("redistest: %v", err)
		}
	}
	do("CONFIG", "SET", "tls-cert-file", s.tlsFile("server.crt")) // any of the files has it read all
	do("CLIENT", "KILL", "TYPE", "pubsub")
	do("CLIENT", "KILL", "TYPE", "normal")
	return s.secure.Clone()
}

// newCertificates makes an authority, and certificates of it for the server, in files, and for clients.
func (s *Server) newCertificates() {
	s.tb.Helper()
	ca, err := newAuthority()
	if err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	server, err := ca.issue("server")
	if err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	client, err := ca.issue("client")
	if err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	if err := errors.Join(
		writePEM(s.tlsFile("ca.crt"), "CERTIFICATE", ca.cert.Raw),
		writePEM(s.tlsFile("server.crt"), "CERTIFICATE", server.Certificate[0]),
		writeKey(s.tlsFile("server.key"), server.PrivateKey),
	); err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	s.secure = &tls.Config{
		RootCAs:      x509.NewCertPool(),
		Certificates: []tls.Certificate{client},
		MinVersion:   tls.VersionTLS12,
	}
	s.secure.RootCAs.AddCert(ca.cert)
}

// withoutTLS matches what servers that were built without TLS say to its options: 6.2 and 7.0 do
// not know the options, later versions miss the support.
var withoutTLS = regexp.MustCompile(`'tls-[^']*'\s+Bad directive|Failed finding TLS support`)

// skipWithoutTLS returns when the process that was just spawned answers or has ended. It skips the
// test if the process ended for want of TLS.
func (s *Server) skipWithoutTLS() {
	s.tb.Helper()
	proc := s.running()
	until(s.tb, startLimit, "word of "+s.Addr(), func() error {
		if proc.hasExited() {
			return nil
		}
		return s.answersAs(proc)
	})
	skipper, ok := s.tb.(interface{ Skipf(string, ...any) })
	if ok && proc.hasExited() && withoutTLS.MatchString(s.logEnd()) {
		skipper.Skipf("redistest: %s was built without TLS", s.bin.path)
	}
}

func (s *Server) tlsFile(name string) string { return filepath.Join(s.dir, name) }

// authority is a certificate authority that lives as long as a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate("relock test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// issue returns a certificate for either end of a connection over loopback.
func (a *authority) issue(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := newTemplate(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.IPAddresses = []net.IP{net.ParseIP(loopback)}
	template.DNSNames = []string{"localhost"}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func newTemplate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
	}
}

func writeKey(path string, key any) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
