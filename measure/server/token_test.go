// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"weir/measure/client"
	"weir/measure/latency"
	"weir/measure/record"
	"weir/measure/token"
)

// tokens returns a verifier, and a function that signs tokens of an experiment.
func tokens(t *testing.T) (v *token.Verifier, sign func(experiment string) string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKey{Key: public, KeyID: "k"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err = token.Load("site", file); err != nil {
		t.Fatal(err)
	}
	to, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v, func(experiment string) string {
		text, err := jwt.Signed(to).Claims(jwt.Claims{Issuer: "locate", Subject: experiment, Audience: jwt.Audience{"site"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)), ID: "token-id"}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

func TestTestsNeedAToken(t *testing.T) {
	t.Parallel() // it waits most of the time
	v, sign := tokens(t)
	s := start(t, func(c *Config) { c.Tokens, c.Latency = v, "127.0.0.1:0" })
	for _, test := range []client.Test{client.NDT7, client.MSAK, client.Latency} {
		experiment, other := "msak", "ndt"
		if test == client.NDT7 {
			experiment, other = other, experiment
		}
		o := client.Options{
			Server: client.Server{Host: "127.0.0.1", Port: fmt.Sprint(s.ClearAddr().Port())}, Address: s.ClearAddr(), LatencyPort: s.LatencyAddr().Port(),
			Test: test, Direction: record.Download, Streams: 2, Version: "9", Duration: 300 * time.Millisecond,
		}
		for _, wrong := range []string{"", "x", sign(other)} {
			o.Token = wrong
			if _, err := client.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "token") {
				t.Errorf("%s with the token %.5q: %v", test, wrong, err)
			}
		}
		o.Token = sign(experiment)
		got, err := client.Run(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", test, err)
		}
		if test == client.Latency && got.MeasurementID != "token-id" {
			t.Errorf("latency: %+v", got)
		}
	}
	for _, r := range s.store.throughput(t) {
		text, _ := json.Marshal(r)
		if r.MeasurementID != "token-id" || strings.Contains(string(text), "access_token") {
			t.Errorf("record %s", text)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.ClearAddr().String()+latency.AuthorizePath+"?mid=other", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+sign("msak"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var first latency.Packet
	if err := json.NewDecoder(response.Body).Decode(&first); err != nil || first.ID != "token-id" {
		t.Errorf("Authorization: Bearer: %d %+v, %v", response.StatusCode, first, err)
	}
	if status, header, _ := s.get(t, latency.ResultPath+"?mid=token-id"); status != 401 || header.Get("WWW-Authenticate") == "" {
		t.Errorf("a result without a token: %d %v", status, header)
	}
	if !strings.Contains(s.scrape(t), `weir_measure_refused_total{reason="token"}`) {
		t.Error("the refusals are not counted")
	}
}
