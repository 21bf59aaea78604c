// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

// nameServer answers every question for an IPv4 address with 127.0.0.1, over TCP.
func nameServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerNames(conn)
		}
	}()
	return l.Addr().String()
}

// answerNames answers the questions of a connection (RFC 1035, section 4.2.2).
func answerNames(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		var length uint16
		if binary.Read(conn, binary.BigEndian, &length) != nil {
			return
		}
		text := make([]byte, length)
		var m dnsmessage.Message
		if _, err := io.ReadFull(conn, text); err != nil || m.Unpack(text) != nil || len(m.Questions) != 1 {
			return
		}
		m.Header, m.Additionals = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		answer, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// freePort returns a TCP port of 127.0.0.1 that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// authority starts pebble at a port. It validates at these ports of 127.0.0.1, and its own TLS has
// the certificate of a file.
func authority(t *testing.T, port, httpPort, tlsPort int, certificate, key string) {
	t.Helper()
	program := testutil.Fetched(t, "WEIR_ACME", "pebble", "scripts/fetch-acme")
	file := filepath.Join(t.TempDir(), "pebble.json")
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprintf("127.0.0.1:%d", port), "certificate": certificate, "privateKey": key, "httpPort": httpPort, "tlsPort": tlsPort,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := exec.Command(program, "-config", file, "-dnsserver", nameServer(t))
	p.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	p.Stdout, p.Stderr = t.Output(), t.Output()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	testutil.Eventually(t, time.Minute, "the authority listens", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// keyPair writes a self-signed certificate of 127.0.0.1 and its key.
func keyPair(t *testing.T) (certificate, key string) {
	t.Helper()
	c, err := SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.current.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{key: {Type: "PRIVATE KEY", Bytes: der}, certificate: {Type: "CERTIFICATE", Bytes: c.current.Certificate[0]}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// A site proves its name by either challenge, whichever port the authority reaches.
func TestACertificateFromAnAuthority(t *testing.T) {
	for name, clear := range map[string]string{"http-01": "127.0.0.1:0", "tls-alpn-01": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is the authority's
			port, cache := freePort(t), t.TempDir()
			ca, key := keyPair(t)
			certificate, err := NewACME(ACME{Host: "site.example", Directory: fmt.Sprintf("https://127.0.0.1:%d/dir", port), CAFile: ca, Cache: cache})
			if err != nil {
				t.Fatal(err)
			}
			c := Config{Clear: clear, Secure: "127.0.0.1:0", Certificate: certificate, MaxTests: 20, Store: &memory{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
			s, err := Listen(c)
			if err != nil {
				t.Fatal(err)
			}
			httpPort, tlsPort := freePort(t), int(s.SecureAddr().Port())
			if clear != "" {
				httpPort, tlsPort = int(s.ClearAddr().Port()), freePort(t)
			}
			if err := certificate.checkAuthority(t.Context()); err == nil {
				t.Error("an authority that does not listen answers")
			}
			authority(t, port, httpPort, tlsPort, ca, key)
			if check := checkCertificate(t.Context(), CheckOptions{Certificate: certificate}); check.State != Works {
				t.Errorf("before the certificate: %+v", check)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			defer func() { stop(); <-ended }()
			var leaf *x509.Certificate
			testutil.Eventually(t, 5*time.Minute, "the site has a certificate", func() bool {
				conn, err := tls.Dial("tcp", s.SecureAddr().String(), &tls.Config{ServerName: "site.example", InsecureSkipVerify: true}) //nolint:gosec // a test
				if err != nil {
					return false
				}
				defer func() { _ = conn.Close() }()
				leaf = conn.ConnectionState().PeerCertificates[0]
				return true
			})
			if err := leaf.VerifyHostname("site.example"); err != nil {
				t.Error(err)
			}
			testutil.Eventually(t, time.Minute, "the certificate is stored", func() bool {
				expires, err := certificate.Expires()
				return err == nil && expires.Equal(leaf.NotAfter)
			})
			// A client without a name gets the same certificate, one with another name none.
			conn, err := tls.Dial("tcp", s.SecureAddr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
			if err != nil || !conn.ConnectionState().PeerCertificates[0].Equal(leaf) {
				t.Errorf("no server name: %v", err)
			} else {
				_ = conn.Close()
			}
			if conn, err := tls.Dial("tcp", s.SecureAddr().String(), &tls.Config{ServerName: "other.example", InsecureSkipVerify: true}); err == nil { //nolint:gosec // a test
				_ = conn.Close()
				t.Error("another name gets a certificate")
			}
			for _, path := range []string{"site.example", "acme_account+key"} {
				if info, err := os.Stat(filepath.Join(cache, path)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v", path, err)
				}
			}
			if clear != "" {
				response, err := http.Get("http://" + s.ClearAddr().String() + "/health")
				if err != nil || response.StatusCode != 200 {
					t.Errorf("/health beside http-01: %v", err)
				} else {
					_ = response.Body.Close()
				}
			}
		})
	}
}

func TestWrongAuthoritiesAreRejected(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ACME{
		"an address": {Host: "192.0.2.9"}, "one label": {Host: "localhost"}, "no name": {}, "a port": {Host: "a.example:443"}, "a path": {Host: "a.example/x"},
		"clear text":   {Host: "a.example", Directory: "http://ca.example/dir"},
		"no host":      {Host: "a.example", Directory: "https:///dir"},
		"an empty CA":  {Host: "a.example", CAFile: empty},
		"a missing CA": {Host: "a.example", CAFile: empty + "x"},
	} {
		if _, err := NewACME(o); fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
