// SPDX-License-Identifier: Apache-2.0

package birdconf

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/ix/config"
	"weir/kernel/testutil"
)

const sample = `version: 1
exchange: {as: 65500, router_id: 10.99.0.2}
feed: {bird: 10.99.0.1, local: 10.99.0.2, password: 's\ecret'}
listen: [10.99.0.2]
sponsors:
  orange: {as: 8492, ports: {ber1: {addresses: [10.99.1.1, "2001:db8:99::1"], rate: 10Gbit}, ber2: {addresses: [10.99.1.11], rate: 10Gbit}}}
  green:  {as: 293,  ports: {fra1: {addresses: ["2001:db8:99::2"], rate: 10Gbit}}}
members:
  m: {as: 64999, addresses: [10.99.2.1]}
`

func parse(t *testing.T, text string) *config.Exchange {
	t.Helper()
	e, err := config.Parse("ix.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// BIRD accepts the configuration.
func TestBIRDParsesIt(t *testing.T) {
	bird := testutil.Command(t, "bird")
	var out strings.Builder
	if err := Write(&out, parse(t, sample)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bird.conf")
	testutil.Write(t, file, "router id 10.99.0.1;\nprotocol device {}\n"+out.String())
	if text, err := exec.Command(bird, "-p", "-c", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, text, out.String())
	}
	for _, want := range []string{"bgp_next_hop ~ [ 10.99.1.11 ] then { # orange/ber2", "(65500, 2, 3)", `password "s\ecret"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

func TestNoSessionIsAMistake(t *testing.T) {
	e := parse(t, strings.Replace(sample, "feed: {bird: 10.99.0.1, local: 10.99.0.2, password: 's\\ecret'}", "feed: {rib: rib.mrt}", 1))
	if err := Write(&strings.Builder{}, e); fault.Of(err) != fault.Usage {
		t.Error(err)
	}
}
