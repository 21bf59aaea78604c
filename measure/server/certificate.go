// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"weir/internal/fault"
)

// Certificate is the certificate of a site. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	host string            // of an ACME certificate
	acme *autocert.Manager // nil for other certificates

	ready atomic.Bool // the ACME certificate has been issued

	mu      sync.Mutex    // guards the following fields
	pause   time.Duration // between two checks of the files
	current *tls.Certificate
	stamp   [2]stamp
	checked time.Time
}

// stamp distinguishes versions of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// checkPause is the minimum time between two checks of the files.
const checkPause = time.Second

// LoadCertificate reads a certificate chain and its key in PEM. Later changes of the files are
// used by the next handshakes; files that do not load leave the former certificate in use.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, pause: checkPause}
	if err := c.load(); err != nil {
		return nil, fault.New(fault.Usage, "name a certificate chain with --cert and its key with --key, both in PEM", "certificate %s, key %s: %w", certFile, keyFile, err)
	}
	return c, nil
}

// SelfSigned makes a certificate for a lab, valid for a week, for these names and addresses.
func SelfSigned(names ...string) (*Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "weir measure, self-signed"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(7 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return &Certificate{current: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}, nil
}

// Expires returns the end of the certificate's validity; zero if an authority has not issued it
// yet.
func (c *Certificate) Expires() (time.Time, error) {
	if c.acme != nil {
		expires, _, err := c.stored(context.Background())
		return expires, err
	}
	current, err := c.get(nil)
	if err != nil {
		return time.Time{}, err
	}
	leaf, err := x509.ParseCertificate(current.Certificate[0])
	if err != nil {
		return time.Time{}, err
	}
	return leaf.NotAfter, nil
}

// config returns the TLS configuration. Only HTTP/1.1 is offered, because WebSocket needs it.
func (c *Certificate) config() *tls.Config {
	if c.acme != nil {
		return &tls.Config{
			GetCertificate: c.issued,
			MinVersion:     tls.VersionTLS12, NextProtos: []string{"http/1.1", acme.ALPNProto},
		}
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.certFile != "" && time.Since(c.checked) >= c.pause {
		// A missing file has the stamp zero.
		if now, err := c.stamps(); now != c.stamp {
			if err == nil {
				err = c.read(now)
			}
			if err != nil {
				c.log.Error("keeps the former certificate", "reason", err)
				c.stamp = now // report each version once
			} else {
				c.log.Info("loaded the changed certificate", "file", c.certFile)
			}
		}
		c.checked = time.Now()
	}
	return c.current, nil
}

func (c *Certificate) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.stamps()
	if err != nil {
		return err
	}
	return c.read(now)
}

func (c *Certificate) read(now [2]stamp) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current, c.stamp = &pair, now
	return nil
}

func (c *Certificate) stamps() (now [2]stamp, err error) {
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return [2]stamp{}, err
		}
		now[i] = stamp{info.ModTime(), info.Size()}
	}
	return now, nil
}
