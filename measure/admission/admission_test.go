// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func address(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestBlocks(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := Block(address(in)).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// admit starts n tests of a client and returns the number of admitted ones and the last rejection.
func admit(g *Gate, client string, n int) (admitted int, last *Rejection) {
	for range n {
		if _, _, r := g.Admit(address(client), 13*time.Second); r != nil {
			last = r
		} else {
			admitted++
		}
	}
	return admitted, last
}

func TestSharesLeaveRoomForANewcomer(t *testing.T) {
	g := New(12)
	for i, want := range []int{6, 4, 2} { // 12/2, 12/3, and the rest of 12
		client := fmt.Sprintf("192.0.2.%d", i)
		got, r := admit(g, client, 12)
		if got != want || r == nil || r.RetryAfter < time.Second || r.RetryAfter > 14*time.Second {
			t.Errorf("%s: %d tests, want %d; %+v", client, got, want, r)
		}
	}
	if got, r := admit(g, "192.0.2.9", 1); got != 0 || r.Kind != "tests" {
		t.Errorf("a full server admits %d tests: %+v", got, r)
	}
}

func TestAddressesOfOneBlockShare(t *testing.T) {
	g := New(4)
	for i, want := range []int{1, 1, 0} {
		if got, _ := admit(g, fmt.Sprintf("2001:db8::%d", i+1), 1); got != want {
			t.Errorf("address %d: %d tests, want %d", i+1, got, want)
		}
	}
	if got, _ := admit(g, "2001:db8:0:1::1", 1); got != 1 {
		t.Error("another block has no place")
	}
}

func TestOneTestAtATime(t *testing.T) {
	g := New(1)
	release, n, r := g.Admit(address("192.0.2.1"), 13*time.Second)
	if r != nil || n != 1 {
		t.Fatalf("%d, %v", n, r)
	}
	if r := g.Check(address("192.0.2.2")); r == nil || r.Kind != "tests" {
		t.Errorf("a second test: %v", r)
	}
	release()
	release() // has no effect
	if r := g.Check(address("192.0.2.2")); r != nil {
		t.Errorf("after the end: %v", r)
	}
	if tests, blocks, _ := g.Running(); tests != 0 || blocks != 0 {
		t.Errorf("%d tests of %d blocks run", tests, blocks)
	}
}

func TestADrainWaitsForTests(t *testing.T) {
	g := New(3)
	release, _, _ := g.Admit(address("192.0.2.1"), 13*time.Second)
	idle := g.Drain()
	if _, _, r := g.Admit(address("192.0.2.2"), 13*time.Second); r == nil || r.Kind != "drain" {
		t.Errorf("a drain admits a test: %v", r)
	}
	select {
	case <-idle:
		t.Fatal("a test runs, and the gate is idle")
	default:
	}
	release()
	<-idle
	<-g.Drain() // again
}

func TestTheTimeOfARetryIsThatOfTheFirstEnd(t *testing.T) {
	g := New(2)
	for i, length := range []time.Duration{time.Hour, 2 * time.Hour} {
		if _, _, r := g.Admit(address(fmt.Sprintf("192.0.2.%d", i)), length); r != nil {
			t.Fatal(r)
		}
	}
	if r := g.Check(address("192.0.2.9")); r == nil || r.RetryAfter <= 30*time.Minute || r.RetryAfter > time.Hour+time.Second {
		t.Errorf("a full gate: %+v", r)
	}
}
