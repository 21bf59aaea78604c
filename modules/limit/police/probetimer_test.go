// SPDX-License-Identifier: Apache-2.0

package police

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/child"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// TCP retransmits a rejected packet with the next acknowledgement. With nothing in flight it waits
// for its probe timer, 200 ms at least, which caused the tail latencies of the LPC 2018 talk.

// ask connects, and for each number of bytes on its input sends and reads that many.
func ask(in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	var work task
	if err := lines.Decode(&work); err != nil {
		return err
	}
	ns, err := netns.Open(work.Namespace)
	if err != nil {
		return err
	}
	var conn net.Conn
	if err := ns.Do(func() (err error) {
		conn, err = net.Dial("tcp", work.Address)
		return err
	}); err != nil {
		return err
	}
	for size := 0; ; {
		if _, err := fmt.Fprintln(out, size); err != nil {
			return err
		}
		if err := lines.Decode(&size); err != nil {
			return nil
		}
		if _, err := conn.Write(make([]byte, size)); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, conn, int64(size)); err != nil {
			return err
		}
	}
}

// asker is a TCP connection from inside scope 0 to an echo server, idle between two requests.
type asker struct {
	plane          *DataPlane
	client, server *netns.Namespace
	process        *child.Process
	answers        *bufio.Scanner
}

// modes returns the classic algorithm and Weir's, with thresholds too large to drain.
func modes() map[string]Limit {
	l := Limit{Rate: 100_000_000, Burst: time.Millisecond, Mark: 10 * time.Second, Drop: 20 * time.Second, Reserve: time.Millisecond}
	classic := l
	classic.Classic = true
	return map[string]Limit{"classic": classic, "paced": l}
}

func newAsker(t *testing.T, l Limit) *asker {
	t.Helper()
	client, server, address := path(t)
	p, outer, inner := innerScope(t)
	if err := errors.Join(p.Set(0, Egress, l), p.Attach(outer.Path)); err != nil {
		t.Fatal(err)
	}
	process, err := child.Start(context.Background(), "ask", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(5 * time.Second) })
	if err := inner.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	a := &asker{plane: p, client: client, server: server, process: process, answers: bufio.NewScanner(process.Out)}
	a.say(t, task{Namespace: client.Name, Address: echo(t, server, address)})
	a.answered(t)
	return a
}

// say sends the process a line; a number is a request of that many bytes.
func (a *asker) say(t *testing.T, line any) {
	t.Helper()
	if err := json.NewEncoder(a.process.In).Encode(line); err != nil {
		t.Fatal(err)
	}
}

// answered waits for the answer.
func (a *asker) answered(t *testing.T) {
	t.Helper()
	if !a.answers.Scan() {
		t.Fatal("the process that asks has ended")
	}
}

// socket is the entry of the connection in /proc/net/tcp.
type socket struct {
	unacknowledged uint64 // octets, sent or not
	timer          uint64 // one of the kernel's; 4 is the probe timer
	probes         uint64 // that timer's expirations without an acknowledgement since
}

const probeTimer = 4

func (a *asker) socket(t *testing.T) (s socket) {
	t.Helper()
	established := 0
	for line := range strings.Lines(readNet(t, a.client, "tcp")) {
		// sl local remote st tx:rx tr:when retrnsmt uid timeout
		fields := strings.Fields(line)
		if fields[3] != "01" {
			continue
		}
		established++
		if _, err := fmt.Sscanf(fields[4]+" "+fields[5]+" "+fields[8], "%x:%x %x:%x %d", &s.unacknowledged, new(uint64), &s.timer, new(uint64), &s.probes); err != nil {
			t.Fatal(err)
		}
	}
	if established != 1 {
		t.Fatalf("%d connections, want one", established)
	}
	return s
}

// readNet returns a file of /proc/net in a namespace.
func readNet(t *testing.T, ns *netns.Namespace, name string) (text string) {
	t.Helper()
	if err := ns.Do(func() error {
		content, err := os.ReadFile("/proc/thread-self/net/" + name)
		text = string(content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return text
}

// netCount returns a counter of a namespace from netstat or snmp, where a line of names precedes
// one of values.
func netCount(t *testing.T, ns *netns.Namespace, file, name string) uint64 {
	t.Helper()
	var names []string
	for line := range strings.Lines(readNet(t, ns, file)) {
		fields := strings.Fields(line)
		if i := slices.Index(names, name); i > 0 && fields[0] == names[0] {
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		names = fields
	}
	t.Fatalf("%s has no counter %s", file, name)
	return 0
}

// Above the ceiling of four drop thresholds the data plane rejects packets of senders with nothing
// in flight, as the classic algorithm does above one: TCP waits for its probe timer, again after
// each rejected probe.
func TestADroppedIdleSenderWaitsForItsProbeTimer(t *testing.T) {
	for name, l := range modes() {
		t.Run(name, func(t *testing.T) {
			a := newAsker(t, l)
			fill(t, a.plane, 0, 5*l.Drop)
			before := counters(t, a.plane, 0)
			const size = 1000
			a.say(t, size)
			var s socket
			testutil.Eventually(t, 20*time.Second, "the second probe", func() bool {
				s = a.socket(t)
				return s.probes >= 2
			})
			if s.timer != probeTimer || s.unacknowledged != size {
				t.Errorf("the socket has %d octets to send and timer %d, want %d and the probe timer", s.unacknowledged, s.timer, size)
			}
			// TCP does not treat a local reject as a loss: nothing else retransmits the packet.
			if n := netCount(t, a.client, "snmp", "RetransSegs"); n > 0 {
				t.Errorf("%d segments were retransmitted", n)
			}
			after := counters(t, a.plane, 0)
			if after.Packets != before.Packets || after.Dropped < 3 || after.Forced > 0 {
				t.Errorf("%d packets were admitted, %d refused and %d forced, want none, the packet with two probes or more, none",
					after.Packets-before.Packets, after.Dropped, after.Forced)
			}
			fill(t, a.plane, 0, 0)
			a.answered(t)
			testutil.Eventually(t, 5*time.Second, "the end of the probe timer", func() bool { return a.socket(t).timer != probeTimer })
		})
	}
}

// Above the drop threshold, packets of a sender with nothing in flight pass, so no sender waits for
// that timer.
func TestASenderWithNothingInFlightIsNotDropped(t *testing.T) {
	for name, l := range modes() {
		t.Run(name, func(t *testing.T) {
			a := newAsker(t, l)
			fill(t, a.plane, 0, 2*l.Drop)
			before := counters(t, a.plane, 0)
			const questions = 200
			for range questions {
				a.say(t, 1000)
				a.answered(t)
			}
			after := counters(t, a.plane, 0)
			// On a slow machine TCP retransmits the request and the answer, which is acknowledged
			// again.
			again := netCount(t, a.client, "netstat", "TCPRetransFail") + netCount(t, a.server, "snmp", "RetransSegs")
			if after.Dropped > again {
				t.Errorf("%d packets were refused, and %d were sent again", after.Dropped, again)
			}
			if n := after.Packets - before.Packets; n < questions || after.Forced-before.Forced != n {
				t.Errorf("%d packets were admitted, %d of them forced, want all of %d or more", n, after.Forced-before.Forced, questions)
			}
			if !l.Classic {
				return // its packets are so far apart that none is in flight
			}
			a.say(t, 100_000)
			a.answered(t)
			if got := counters(t, a.plane, 0); got.Dropped == after.Dropped {
				t.Error("no packet was refused while others were in flight: the queue is not where they are")
			}
		})
	}
}
