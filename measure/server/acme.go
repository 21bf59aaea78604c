// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"weir/internal/fault"
)

// ACME describes a certificate from an authority (RFC 8555). The site proves its host name by
// http-01 on port 80 or by tls-alpn-01 on port 443.
type ACME struct {
	Host      string
	Directory string // URL of the authority; "" is Let's Encrypt
	CAFile    string // PEM certificates that sign the authority's own TLS; "" for the system's
	Cache     string // folder of the account, the certificate and its key
}

// requestTime bounds one request to an authority.
const requestTime = 30 * time.Second

// NewACME returns a certificate that Run obtains and renews. It contacts nobody yet.
func NewACME(o ACME) (*Certificate, error) {
	if o.Directory == "" {
		o.Directory = autocert.DefaultACMEDirectory
	}
	u, err := url.Parse(o.Directory)
	switch {
	case !hostName(o.Host):
		return nil, fault.New(fault.Usage, "write a host name with a dot, as in --acme ndt.example.org", "--acme %q is no host name that an authority certifies", o.Host)
	case err != nil || u.Scheme != "https" || u.Host == "":
		return nil, fault.New(fault.Usage, "write --acme-directory https://ca.example.net/directory", "--acme-directory %q is no https URL", o.Directory)
	}
	client, err := authorityClient(o.CAFile)
	if err != nil {
		return nil, err
	}
	return &Certificate{host: o.Host, acme: &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(o.Cache), HostPolicy: onlyHost(o.Host),
		Client: &acme.Client{DirectoryURL: o.Directory, HTTPClient: client, UserAgent: "weir"},
	}}, nil
}

// onlyHost accepts one name, in HTTP requests with any port.
func onlyHost(name string) autocert.HostPolicy {
	return func(_ context.Context, host string) error {
		if only, _, err := net.SplitHostPort(host); err == nil {
			host = only
		}
		if !strings.EqualFold(host, name) {
			return fmt.Errorf("this site is %s, not %q", name, host)
		}
		return nil
	}
}

// hostName reports whether the name has two or more labels of letters, digits and hyphens.
func hostName(name string) bool {
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && len(name) < 254 && strings.Trim(last, "0123456789") != "" // no IPv4 address
}

// authorityClient returns a client that trusts the certificates of a file, or the system's.
func authorityClient(file string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fault.New(fault.Usage, "name the authority's certificate in PEM", "--acme-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fault.New(fault.Usage, "name the authority's certificate in PEM", "--acme-ca %s has no certificate in PEM", file)
		}
	}
	return &http.Client{Timeout: requestTime, Transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}}, nil
}

// hello is a handshake of a client that takes an ECDSA certificate.
func (c *Certificate) hello() *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		ServerName: c.host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
	}
}

// obtain requests the certificate until it is there, so that no client waits for it. The manager
// renews it.
func (c *Certificate) obtain(ctx context.Context, report func(error)) {
	pause := obtainPause
	for ctx.Err() == nil {
		_, err := c.acme.GetCertificate(c.hello())
		c.ready.Store(err == nil)
		report(err)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxObtainPause)
	}
}

const (
	// obtainPause is longer than the minute in which the manager repeats its last error.
	obtainPause = 2 * time.Minute
	// maxObtainPause follows several failures: authorities bound those of a name.
	maxObtainPause = time.Hour
)

// issued returns the certificate to a handshake. Only obtain orders one: a client would wait
// minutes for an order, and one that takes RSA alone would cause another.
func (c *Certificate) issued(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto {
		return c.acme.GetCertificate(hello) // the authority's challenge
	}
	if !c.ready.Load() {
		return nil, errors.New("the site has no certificate yet")
	}
	named := c.hello()
	if hello.ServerName != "" {
		named.ServerName = hello.ServerName // an address has none
	}
	return c.acme.GetCertificate(named)
}

// stored returns the end of the validity of the certificate in the cache; false if there is none.
func (c *Certificate) stored(ctx context.Context) (expires time.Time, ok bool, err error) {
	text, err := c.acme.Cache.Get(ctx, c.host)
	if errors.Is(err, autocert.ErrCacheMiss) {
		return expires, false, nil
	}
	for block, rest := pem.Decode(text); err == nil && block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return expires, false, err
		}
		return leaf.NotAfter, true, nil
	}
	return expires, false, err
}

// checkAuthority reports whether the authority's directory can be read.
func (c *Certificate) checkAuthority(ctx context.Context) error {
	if _, err := c.acme.Client.Discover(ctx); err != nil {
		return fmt.Errorf("authority %s: %w", c.acme.Client.DirectoryURL, err)
	}
	return nil
}
