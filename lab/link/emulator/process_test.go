// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"context"
	"testing"
	"time"

	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/emulator"
	"weir/lab/link/rawsock"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair makes a cable's two ends, both hosts' devices in one namespace of their own.
func pair(t *testing.T) (carrier, hosts *netns.Namespace) {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	carrier, hosts = testutil.Namespace(t, "carrier"), testutil.Namespace(t, "hosts")
	conn, err := rtnl.Open(carrier)
	must(t, err)
	defer conn.Close()
	other, err := rtnl.Open(hosts)
	must(t, err)
	defer other.Close()
	for _, end := range []string{"a", "b"} {
		must(t, conn.AddVeth("end-"+end, hosts, "host-"+end, 0))
		must(t, conn.SetUp("end-"+end))
		must(t, other.SetUp("host-"+end))
		must(t, link.Prepare(hosts, "host-"+end))
	}
	return carrier, hosts
}

var cables = []link.Cable{{Name: "one", A: "end-a", B: "end-b", Forward: link.Direction{Delay: time.Millisecond}}}

func TestStatusCountsAndCloseIsFinal(t *testing.T) {
	carrier, hosts := pair(t)
	carrying, err := emulator.New(emulator.Options{Spin: -1}).Carry(context.Background(), carrier, cables)
	must(t, err)
	sender, err := rawsock.Open(hosts, "host-a", rawsock.None)
	must(t, err)
	defer func() { _ = sender.Close() }()
	before, err := carrying.Status()
	must(t, err)
	frame := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, 86)...)
	for range 50 {
		must(t, sender.Send(t.Context(), frame))
	}
	var now link.Counters
	testutil.Eventually(t, 10*time.Second, "50 frames counted", func() bool {
		status, err := carrying.Status()
		must(t, err)
		now = status[0].Forward
		return now.Sent-before[0].Forward.Sent >= 50
	})
	if now.Lateness.Count() != now.Sent || now.SentBytes < 50*100 || now.Overruns != 0 {
		t.Errorf("counted %+v", now)
	}
	if carrying.CPU() <= 0 {
		t.Error("the emulator used no CPU time")
	}
	must(t, carrying.Close())
	if _, err := carrying.Status(); err == nil {
		t.Error("a closed emulator has a status")
	}
}

func TestChildEndsWithTheContext(t *testing.T) {
	carrier, _ := pair(t)
	ctx, cancel := context.WithCancel(context.Background())
	carrying, err := emulator.New(emulator.Options{}).Carry(ctx, carrier, cables)
	must(t, err)
	cancel()
	testutil.Eventually(t, 10*time.Second, "the status to fail", func() bool {
		_, err := carrying.Status()
		return err != nil
	})
	_ = carrying.Close() // says how the child ended
	again, err := emulator.New(emulator.Options{}).Carry(context.Background(), carrier, cables)
	must(t, err)
	must(t, again.Close())
}

func TestWhatCannotBeCarriedIsAnErrorAndLeavesNothing(t *testing.T) {
	carrier, _ := pair(t)
	for _, c := range []link.Cable{
		{Name: "x", A: "end-a", B: "no-such"},
		{Name: "x", A: "end-a", B: "end-b", Forward: link.Direction{Duplicate: 1.5}},
	} {
		if carrying, err := emulator.New(emulator.Options{}).Carry(context.Background(), carrier, []link.Cable{c}); err == nil {
			t.Errorf("%+v is carried", c)
			_ = carrying.Close()
		}
	}
	carrying, err := emulator.New(emulator.Options{}).Carry(context.Background(), carrier, cables)
	must(t, err)
	must(t, carrying.Close())
}

// The largest backlog is that of a span of time: a calibration's is not the traffic's.
func TestBeginForgetsTheLargestBacklog(t *testing.T) {
	carrier, hosts := pair(t)
	slow := []link.Cable{{Name: "one", A: "end-a", B: "end-b", Forward: link.Direction{Rate: 1e5}}}
	carrying, err := emulator.New(emulator.Options{Spin: -1}).Carry(context.Background(), carrier, slow)
	must(t, err)
	defer func() { must(t, carrying.Close()) }()
	sender, err := rawsock.Open(hosts, "host-a", rawsock.None)
	must(t, err)
	defer func() { _ = sender.Close() }()
	frame := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, 86)...)
	for range 5 {
		must(t, sender.Send(t.Context(), frame))
	}
	read := func() link.Counters {
		status, err := carrying.Status()
		must(t, err)
		return status[0].Forward
	}
	testutil.Eventually(t, 10*time.Second, "all frames have left", func() bool {
		now := read()
		return now.Sent >= 5 && now.Held == 0 // a host may send frames of its own
	})
	if now := read(); now.MaxBacklog == 0 || now.ReceivedBytes < 5*100 {
		t.Errorf("before: %+v", now)
	}
	must(t, carrying.Begin())
	if now := read(); now.MaxBacklog != 0 || now.Received < 5 {
		t.Errorf("after: %+v", now)
	}
}

func TestQueuesAreGaugedOverTime(t *testing.T) {
	carrier, hosts := pair(t)
	slow := []link.Cable{{Name: "one", A: "end-a", B: "end-b", Forward: link.Direction{Rate: 100e3, Queue: link.Queue{Packets: 100}}}}
	carrying, err := emulator.New(emulator.Options{Spin: -1}).Carry(context.Background(), carrier, slow)
	must(t, err)
	defer func() { _ = carrying.Close() }()
	sender, err := rawsock.Open(hosts, "host-a", rawsock.None)
	must(t, err)
	defer func() { _ = sender.Close() }()
	must(t, carrying.Begin())
	frame := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, 986)...)
	for range 20 {
		must(t, sender.Send(t.Context(), frame))
	}
	status := func() link.Counters {
		all, err := carrying.Status()
		must(t, err)
		return all[0].Forward
	}
	testutil.Eventually(t, 10*time.Second, "all frames and the end of their interval", func() bool {
		depths, err := carrying.(link.Gauging).Depths()
		must(t, err)
		most := uint32(0)
		for _, octets := range depths[0][0] {
			most = max(most, octets)
		}
		s := status()
		return s.Received >= 20 && uint64(most) == s.MaxBacklog && len(depths) == 1
	})
	if status().MaxBacklog < 2000 {
		t.Errorf("at most %d bytes waited of 20,000 that came at once", status().MaxBacklog)
	}
}
