// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// A handshake neither orders a certificate nor waits for one.
func TestHandshakesOrderNoCertificate(t *testing.T) {
	var requests atomic.Int64
	authority := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer authority.Close()
	cache := t.TempDir()
	c, err := NewACME(ACME{Host: "site.example", Directory: authority.URL, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	c.acme.Client.HTTPClient = authority.Client()
	get := c.config().GetCertificate
	hellos := map[string]*tls.ClientHelloInfo{
		"ECDSA":    c.hello(),
		"RSA":      {ServerName: "site.example", CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}},
		"no name":  {CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}},
		"capitals": {ServerName: "SITE.example"},
	}
	for name, hello := range hellos {
		if certificate, err := get(hello); err == nil {
			t.Errorf("%s: certificate %v before there is one", name, certificate)
		}
	}
	if _, err := get(&tls.ClientHelloInfo{ServerName: "site.example", SupportedProtos: []string{acme.ALPNProto}}); err == nil {
		t.Error("a challenge that no order made is answered")
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("handshakes before the certificate caused %d requests to the authority", n)
	}
	storeCertificate(t, cache, "site.example")
	c.obtain(t.Context(), func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	for name, hello := range hellos {
		if certificate, err := get(hello); err != nil || len(certificate.Certificate) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := get(&tls.ClientHelloInfo{ServerName: "other.example"}); err == nil {
		t.Error("another name gets a certificate")
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("handshakes caused %d requests to the authority", n)
	}
}

// storeCertificate writes a certificate of 90 days into the cache.
func storeCertificate(t *testing.T, cache, host string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	leaf, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf})...)
	if err := autocert.DirCache(cache).Put(context.Background(), host, text); err != nil {
		t.Fatal(err)
	}
}
