// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

// writePair writes a fresh self-signed certificate and its key, with the modification time at.
func writePair(t *testing.T, cert, key string, at time.Time) *x509.Certificate {
	t.Helper()
	c, err := SelfSigned("site.example")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.current.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{key: {Type: "PRIVATE KEY", Bytes: der}, cert: {Type: "CERTIFICATE", Bytes: c.current.Certificate[0]}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	leaf, err := x509.ParseCertificate(c.current.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// certificate returns the certificate of a handshake.
func (s *site) certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	c, err := tls.Dial("tcp", s.SecureAddr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0]
}

func TestAChangedCertificateIsUsed(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	first := writePair(t, cert, key, time.Unix(1_700_000_000, 0))
	loaded, err := LoadCertificate(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	loaded.pause = 0
	s := start(t, func(c *Config) { c.Certificate = loaded })
	if !s.certificate(t).Equal(first) {
		t.Fatal("the first handshake has another certificate")
	}
	second := writePair(t, cert, key, time.Unix(1_700_000_100, 0))
	testutil.Eventually(t, time.Minute, "the changed certificate is used", func() bool { return s.certificate(t).Equal(second) })
	// A broken file leaves the certificate in use.
	if err := os.WriteFile(cert, []byte("half of a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, time.Minute, "the broken file is read", func() bool {
		served := s.certificate(t)
		if !served.Equal(second) {
			t.Fatal("a broken file changed the certificate")
		}
		loaded.mu.Lock()
		defer loaded.mu.Unlock()
		return loaded.stamp[0].size == int64(len("half of a certif"))
	})
	third := writePair(t, cert, key, time.Unix(1_700_000_200, 0))
	testutil.Eventually(t, time.Minute, "the repaired certificate is used", func() bool { return s.certificate(t).Equal(third) })
}

func TestAMissingCertificateIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, time.Unix(1_700_000_000, 0))
	var log bytes.Buffer
	loaded, err := LoadCertificate(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	loaded.pause = 0
	testutil.Remove(t, key)
	for range 3 {
		if c, err := loaded.get(nil); c == nil || err != nil {
			t.Errorf("certificate %v, error %v", c, err)
		}
	}
	if n := strings.Count(log.String(), "keeps the former certificate"); n != 1 {
		t.Errorf("reported %d times:\n%s", n, &log)
	}
}

func TestWrongCertificatesAreRejected(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, time.Now())
	other := filepath.Join(dir, "other.pem")
	writePair(t, filepath.Join(dir, "unused.pem"), other, time.Now())
	for name, pair := range map[string][2]string{"missing": {filepath.Join(dir, "none"), key}, "another key": {cert, other}, "key as certificate": {key, key}} {
		if _, err := LoadCertificate(pair[0], pair[1], slog.New(slog.DiscardHandler)); fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChecksOfAHost(t *testing.T) {
	certificate, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	taken := start(t, nil)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	states := func(o CheckOptions) map[string]State {
		all := map[string]State{}
		for _, c := range Checks(t.Context(), o) {
			if c.Detail == "" || c.State == Missing && c.Try == "" {
				t.Errorf("%+v lacks a detail or advice", c)
			}
			all[c.Name] = c.State
		}
		return all
	}
	good := states(CheckOptions{Clear: "127.0.0.1:0", Secure: "127.0.0.1:0", Certificate: certificate, Congestion: "no-such-control", Spool: filepath.Join(t.TempDir(), "new", "folder")})
	for name, state := range good {
		if state == Missing {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"bbr", "cubic", "reno"} {
		if good["congestion control "+name] == "" {
			t.Errorf("%s is not checked", name)
		}
	}
	few := states(CheckOptions{Clear: "127.0.0.1:0", Spool: t.TempDir(), MaxTests: 1 << 40, ArchiveName: "s3://none", Archive: func(context.Context) error { return fault.New(fault.Failed, "make it", "no bucket") }})
	if few["open files"] != Limited || few["archive s3://none"] != Limited {
		t.Errorf("states %v", few)
	}
	if good["congestion control no-such-control"] != Limited || good["certificate"] != Limited { // a week is left
		t.Errorf("states %v", good)
	}
	address := taken.ClearAddr().String()
	bad := states(CheckOptions{Clear: address, Latency: udp.LocalAddr().String(), Certificate: nil, Congestion: "reno", Spool: filepath.Join(file, "spool")})
	if bad["--listen "+address] != Missing || bad["--latency-listen "+udp.LocalAddr().String()] != Missing || bad["spool "+filepath.Join(file, "spool")] != Missing || bad["certificate"] != Limited {
		t.Errorf("states %v", bad)
	}
}
