// SPDX-License-Identifier: Apache-2.0

// Package token verifies access tokens: JSON Web Tokens (RFC 7519) that a Locate service signs for
// one test.
//
// A token names its key (kid), its issuer "locate", its audience (the site's machine name), its
// subject (the experiment or "monitoring"), its end and an ID. A key
// accepts one algorithm, that of its own type: EdDSA for Ed25519, ES256 for P-256, RS256 for RSA.
// A token is no secret of the site: it may be used for several connections until its end.
package token

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"weir/internal/fault"
)

// issuer and monitoring are those of Measurement Lab's Locate; its monitoring tests everything.
const (
	issuer     = "locate"
	monitoring = "monitoring"
)

const (
	maxToken = 2048 // bytes
	maxID    = 128  // bytes of the ID
	minRSA   = 2048 // bits
	leeway   = 10 * time.Second
)

// key is a public key with its only algorithm.
type key struct {
	public    any
	algorithm jose.SignatureAlgorithm
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	machine string
	keys    map[string]key
	now     func() time.Time // replaced in tests
}

// Load reads public keys, each file a JWK or a set of them (RFC 7517). machine is the audience.
func Load(machine string, files ...string) (*Verifier, error) {
	if machine == "" {
		return nil, fault.New(fault.Usage, "add --token-machine with the name that tokens have as audience", "--token-key needs --token-machine")
	}
	v := &Verifier{machine: machine, keys: map[string]key{}, now: time.Now}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = v.add(text)
		}
		if err != nil {
			return nil, fault.New(fault.Usage, "name a file with a public key as JWK, with its \"kid\"", "--token-key %s: %w", file, err)
		}
	}
	return v, nil
}

// add takes the keys of a document.
func (v *Verifier) add(text []byte) error {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return err
	}
	if len(set.Keys) == 0 {
		var one jose.JSONWebKey
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		set.Keys = append(set.Keys, one)
	}
	for _, k := range set.Keys {
		algorithm, err := algorithmOf(k.Key)
		switch {
		case err != nil:
			return err
		case k.KeyID == "":
			return errors.New("a key has no \"kid\"")
		case !k.Valid():
			return fmt.Errorf("key %q is not valid", k.KeyID)
		}
		if _, is := v.keys[k.KeyID]; is {
			return fmt.Errorf("two keys have the \"kid\" %q", k.KeyID)
		}
		v.keys[k.KeyID] = key{k.Key, algorithm}
	}
	return nil
}

// algorithmOf returns the only algorithm of a key.
func algorithmOf(k any) (jose.SignatureAlgorithm, error) {
	switch k := k.(type) {
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return jose.ES256, nil
		}
	case *rsa.PublicKey:
		if k.N.BitLen() >= minRSA {
			return jose.RS256, nil
		}
	case ed25519.PrivateKey, *ecdsa.PrivateKey, *rsa.PrivateKey:
		return "", errors.New("the key is private: a site needs the public one alone")
	}
	return "", fmt.Errorf("the key is not Ed25519, P-256 or RSA of %d bits or more", minRSA)
}

// Verify returns the ID of a token for tests of an experiment, such as "ndt". The error is a reason
// for people.
func (v *Verifier) Verify(text, experiment string) (id string, err error) {
	switch {
	case text == "":
		return "", errors.New("the access token is missing: add access_token to the query string, or Authorization: Bearer")
	case len(text) > maxToken:
		return "", fmt.Errorf("the access token has more than %d bytes", maxToken)
	}
	t, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256, jose.RS256})
	if err != nil || len(t.Headers) != 1 {
		return "", errors.New("the access token is no JSON Web Token signed with EdDSA, ES256 or RS256")
	}
	k, known := v.keys[t.Headers[0].KeyID]
	if !known || t.Headers[0].Algorithm != string(k.algorithm) {
		return "", errors.New("the access token names another key or algorithm than those of this site")
	}
	var claims jwt.Claims
	if err := t.Claims(k.public, &claims); err != nil {
		return "", errors.New("the signature of the access token is not valid")
	}
	err = claims.ValidateWithLeeway(jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{v.machine}, Time: v.now()}, leeway)
	switch {
	case errors.Is(err, jwt.ErrExpired), claims.Expiry == nil:
		return "", errors.New("the access token is expired, or has no end")
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "", errors.New("the access token is not issued by " + issuer)
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "", errors.New("the access token is for another machine")
	case err != nil:
		return "", errors.New("the access token is not valid yet")
	case claims.Subject != experiment && claims.Subject != monitoring:
		return "", fmt.Errorf("the access token is not for tests of %s", experiment)
	case claims.ID == "" || len(claims.ID) > maxID:
		return "", fmt.Errorf("the access token has no ID of 1 to %d bytes", maxID)
	}
	return claims.ID, nil
}
