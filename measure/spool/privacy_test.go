// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestPrivacyChangesTheClientsAddresses(t *testing.T) {
	block := Privacy{Prefix4: 24, Prefix6: 64}
	none := Privacy{NoAddress: true}
	for _, test := range []struct {
		what          string
		p             Privacy
		before, after string
	}{
		{"no option", Privacy{}, `{"ClientIP":"192.0.2.77"}`, `{"ClientIP":"192.0.2.77"}`},
		{"ndt7 over IPv4", block, `{"ServerIP":"192.0.2.1","ClientIP":"192.0.2.77","Download":{"ServerMeasurements":[{"ConnectionInfo":{"Client":"192.0.2.77:4242","Server":"192.0.2.1:443"}}],"ClientMetadata":[{"Name":"ip","Value":"192.0.2.77"}]}}`,
			`{"ServerIP":"192.0.2.1","ClientIP":"192.0.2.0","Download":{"ServerMeasurements":[{"ConnectionInfo":{"Client":"192.0.2.0:4242","Server":"192.0.2.1:443"}}],"ClientMetadata":[{"Name":"ip","Value":"192.0.2.0"}]}}`},
		{"IPv6", block, `{"Client":"[2001:db8:1:2:3:4:5:6]:80","other":"2001:db8:1:2::9"}`, `{"Client":"[2001:db8:1:2::]:80","other":"2001:db8:1:2::"}`},
		{"IPv4 in IPv6", block, `{"Client":"[::ffff:192.0.2.77]:80"}`, `{"Client":"192.0.2.0:80"}`},
		{"a zone", block, `{"Client":"fe80::1:2%eth0"}`, `{"Client":"fe80::"}`},
		{"the client's own view behind NAT", block, `{"ClientIP":"192.0.2.77","ClientMeasurements":[{"ConnectionInfo":{"Client":"10.1.2.3:5"}}]}`,
			`{"ClientIP":"192.0.2.0","ClientMeasurements":[{"ConnectionInfo":{"Client":"10.1.2.0:5"}}]}`},
		{"hops of a traceroute", block, `{"Trace":{"src":"198.51.100.1","dst":"192.0.2.77","hops":[{"addr":"203.0.113.1","name":"core.example"},{"addr":"192.0.2.1","name":"home.example"},{"addr":"192.0.2.77","name":"me.example"}]}}`,
			`{"Trace":{"src":"198.51.100.1","dst":"192.0.2.0","hops":[{"addr":"203.0.113.1","name":"core.example"},{"addr":"192.0.2.0","name":""},{"addr":"192.0.2.0","name":""}]}}`},
		{"escaped characters", block, `{"ClientIP":"192\u002e0.2.77","x":"a\"b"}`, `{"ClientIP":"192.0.2.0","x":"a\"b"}`},
		{"a network", block, `{"Client":{"Network":{"CIDR":"192.0.2.64/26"}},"Server":{"Network":{"CIDR":"198.51.0.0/16"}}}`,
			`{"Client":{"Network":{"CIDR":"192.0.2.0/24"}},"Server":{"Network":{"CIDR":"198.51.0.0/16"}}}`},
		{"no address", none, `{"ClientIP":"192.0.2.77","Client":"[2001:db8::7]:1","hop":"192.0.2.3","far":"192.0.3.3"}`,
			`{"ClientIP":"0.0.0.0","Client":"[::]:1","hop":"0.0.0.0","far":"192.0.3.3"}`},
		{"numbers and versions", block, `{"ClientIP":"192.0.2.77","Version":"1.2.3","n":1.5e-3,"h":"::"}`, `{"ClientIP":"192.0.2.0","Version":"1.2.3","n":1.5e-3,"h":"::"}`},
	} {
		if got := string(test.p.apply([]byte(test.before))); got != test.after {
			t.Errorf("%s:\n%s, want\n%s", test.what, got, test.after)
		}
	}
	if err := (Privacy{Prefix4: 33}).check(); err == nil {
		t.Error("a prefix of 33 bits is accepted")
	}
}

func FuzzPrivacy(f *testing.F) {
	f.Add([]byte(`{"ClientIP":"192.0.2.77","hops":[{"addr":"192.0.2.1","name":"a"}]}`), 24, 64, false)
	f.Add([]byte(`{"Client":"[2001:db8::1%e]:1","a":"\\\"","b":{"dst":"1.2.3.4/8"}}`), 0, 48, true)
	f.Fuzz(func(t *testing.T, text []byte, four, six int, none bool) {
		p := Privacy{four, six, none}
		if p.check() != nil || !json.Valid(text) {
			return
		}
		got := p.apply(text)
		if !json.Valid(got) {
			t.Errorf("%s became %s", text, got)
		}
		if again := p.apply(got); !bytes.Equal(again, got) && p.Prefix4 != 0 && p.Prefix6 != 0 && !none {
			t.Errorf("%s became %s, and then %s", text, got, again)
		}
	})
}
