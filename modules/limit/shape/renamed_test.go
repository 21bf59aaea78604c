// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/kernel/testutil"
)

// A name that belongs to another device by now does not take the record of the renamed device, so
// that its tree can be restored.
func TestARenamedDeviceKeepsItsRecord(t *testing.T) {
	s := newStage(t)
	l := s.shaper(direction.Egress, time.Second)
	s.apply(l)
	ip := func(args string) {
		t.Helper()
		if out, err := exec.Command(testutil.Command(t, "ip"), strings.Fields("-n "+s.here.Name+" "+args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	ip("link set eth0 down")
	ip("link set eth0 name wan0")
	ip("link add eth0 type veth peer name eth9") // in the place of the former device
	err := s.here.Do(func() error { return s.host.Apply(nil, Work{Shapers: []Shaper{l}}) })
	if err == nil || !strings.Contains(err.Error(), "renamed or replaced") {
		t.Errorf("a shaper with the index of the renamed device: %v", err)
	}
	s.do(func() error { _, err := s.host.Release(); return err })
	for _, dev := range []string{"wan0", "eth0"} {
		out, err := exec.Command("tc", "-n", s.here.Name, "qdisc", "show", "dev", dev).CombinedOutput()
		if err != nil || strings.Contains(string(out), "htb") || strings.Contains(string(out), "fq") {
			t.Errorf("%s after the release: %v: %s", dev, err, out)
		}
	}
}
