// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"weir/internal/fault"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// signer signs tokens with a key of a file.
type signer struct {
	private   crypto.Signer
	algorithm jose.SignatureAlgorithm
	id        string
}

func newSigner(t testing.TB, algorithm jose.SignatureAlgorithm, id string) signer {
	t.Helper()
	var private crypto.Signer
	var err error
	switch algorithm {
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, minRSA)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signer{private, algorithm, id}
}

// file writes the public key as JWK.
func (s signer) file(t testing.TB) string { return writeJSON(t, s.public()) }

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.private.Public(), KeyID: s.id}
}

func writeJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func good() jwt.Claims {
	return jwt.Claims{Issuer: "locate", Subject: "ndt", Audience: jwt.Audience{"site"}, Expiry: jwt.NewNumericDate(now.Add(time.Minute)), ID: "id-1"}
}

func (s signer) sign(t testing.TB, claims any) string {
	t.Helper()
	to, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: jose.JSONWebKey{Key: s.private, KeyID: s.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(to).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func load(t testing.TB, files ...string) *Verifier {
	t.Helper()
	v, err := Load("site", files...)
	if err != nil {
		t.Fatal(err)
	}
	v.now = func() time.Time { return now }
	return v
}

func TestTokensOfEachAlgorithm(t *testing.T) {
	a, b, c := newSigner(t, jose.EdDSA, "a"), newSigner(t, jose.ES256, "b"), newSigner(t, jose.RS256, "c")
	v := load(t, a.file(t), writeJSON(t, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{b.public(), c.public()}}))
	for _, s := range []signer{a, b, c} {
		if id, err := v.Verify(s.sign(t, good()), "ndt"); err != nil || id != "id-1" {
			t.Errorf("%s: %q, %v", s.algorithm, id, err)
		}
	}
}

// Measurement Lab's monitoring has tokens of its own.
func TestTokensOfMonitoringAreForAllExperiments(t *testing.T) {
	a := newSigner(t, jose.EdDSA, "a")
	v, c := load(t, a.file(t)), good()
	c.Subject = "monitoring"
	for _, experiment := range []string{"ndt", "msak"} {
		if id, err := v.Verify(a.sign(t, c), experiment); err != nil || id != "id-1" {
			t.Errorf("%s: %q, %v", experiment, id, err)
		}
	}
}

func TestHostileTokensNameTheReason(t *testing.T) {
	a, r := newSigner(t, jose.EdDSA, "a"), newSigner(t, jose.RS256, "r")
	v := load(t, a.file(t), r.file(t))
	change := func(do func(*jwt.Claims)) string {
		c := good()
		do(&c)
		return a.sign(t, c)
	}
	whole := a.sign(t, good())
	parts := strings.Split(whole, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	// The public key as the secret of an HMAC, the classic confusion of algorithms.
	public, _ := json.Marshal(r.public())
	confused, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: "r"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hmac, err := jwt.Signed(confused).Claims(good()).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	stranger, thief := newSigner(t, jose.EdDSA, "x"), newSigner(t, jose.EdDSA, "a")
	swapped := newSigner(t, jose.ES256, "a")
	for name, c := range map[string]struct{ text, reason string }{
		"none":                {"", "missing"},
		"too long":            {strings.Repeat("x", 2049), "2048"},
		"garbage":             {"a.b.c", "JSON Web Token"},
		"no signature":        {encode(`{"alg":"none","kid":"a"}`) + "." + parts[1] + ".", "JSON Web Token"},
		"HS256":               {hmac, "JSON Web Token"},
		"an unknown key":      {stranger.sign(t, good()), "another key"},
		"another algorithm":   {swapped.sign(t, good()), "another key or algorithm"},
		"another's signature": {thief.sign(t, good()), "signature"},
		"a changed claim":     {parts[0] + "." + encode(`{"aud":"site","exp":99999999999,"jti":"x"}`) + "." + parts[2], "signature"},
		"expired":             {change(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(now.Add(-11 * time.Second)) }), "expired"},
		"no end":              {change(func(c *jwt.Claims) { c.Expiry = nil }), "no end"},
		"not yet":             {change(func(c *jwt.Claims) { c.NotBefore = jwt.NewNumericDate(now.Add(time.Minute)) }), "not valid yet"},
		"another machine":     {change(func(c *jwt.Claims) { c.Audience = jwt.Audience{"other"} }), "another machine"},
		"no machine":          {change(func(c *jwt.Claims) { c.Audience = nil }), "another machine"},
		"another issuer":      {change(func(c *jwt.Claims) { c.Issuer = "other" }), "issued by locate"},
		"no issuer":           {change(func(c *jwt.Claims) { c.Issuer = "" }), "issued by locate"},
		"no subject":          {change(func(c *jwt.Claims) { c.Subject = "" }), "tests of ndt"},
		"another experiment":  {change(func(c *jwt.Claims) { c.Subject = "msak" }), "tests of ndt"},
		"no ID":               {change(func(c *jwt.Claims) { c.ID = "" }), "no ID"},
		"a long ID":           {change(func(c *jwt.Claims) { c.ID = strings.Repeat("i", 129) }), "no ID"},
	} {
		if id, err := v.Verify(c.text, "ndt"); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %q, %v; want %q", name, id, err, c.reason)
		}
	}
}

func TestWrongKeysAreRejected(t *testing.T) {
	a := newSigner(t, jose.EdDSA, "a")
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skipf("needs RSA keys of 1024 bits: %v", err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string][]string{
		"private":   {writeJSON(t, jose.JSONWebKey{Key: a.private, KeyID: "a"})},
		"symmetric": {writeJSON(t, jose.JSONWebKey{Key: []byte("secret"), KeyID: "a"})},
		"no kid":    {writeJSON(t, jose.JSONWebKey{Key: a.private.Public()})},
		"weak RSA":  {writeJSON(t, jose.JSONWebKey{Key: weak.Public(), KeyID: "a"})},
		"P-384":     {writeJSON(t, jose.JSONWebKey{Key: p384.Public(), KeyID: "a"})},
		"twice":     {a.file(t), a.file(t)},
		"no JSON":   {text},
		"missing":   {text + "x"},
	} {
		if _, err := Load("site", files...); fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load("", a.file(t)); fault.Of(err) != fault.Usage {
		t.Errorf("no machine: %v", err)
	}
}

func FuzzToken(f *testing.F) {
	a := newSigner(f, jose.EdDSA, "a")
	v := load(f, a.file(f))
	whole := a.sign(f, good())
	f.Add(whole)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := v.Verify(text, "ndt"); err == nil && (id != "id-1" || !strings.HasPrefix(text, whole[:len(whole)-2])) {
			t.Fatalf("%q is accepted as %q", text, id)
		}
	})
}
