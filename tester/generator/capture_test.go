// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/kernel/xsk"
	"weir/tester"
)

// captor receives the frames at the far end, octet for octet, through an AF_XDP socket.
type captor struct {
	t        testing.TB
	umem     *xsk.Umem
	redirect *xsk.Redirect
	socket   *xsk.Socket
	part     []byte
	frames   [][]byte
}

func (r *rig) capture(t testing.TB) *captor {
	t.Helper()
	c := &captor{t: t}
	conn, err := rtnl.Open(r.far)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	device, err := conn.Device("in")
	if err != nil {
		t.Fatal(err)
	}
	if c.umem, err = xsk.NewUmem(1024, 4096); err != nil {
		t.Fatal(err)
	}
	err = r.far.Do(func() (err error) {
		if c.socket, err = xsk.Open(c.umem, device.Index, 0, xsk.Options{Receive: 1024, MultiBuffer: true}); err != nil {
			return err
		}
		if c.redirect, err = xsk.Attach(device.Index, true); err != nil {
			return err
		}
		return c.redirect.Bring(0, c.socket)
	})
	if err != nil {
		t.Fatal(err)
	}
	c.socket.Fill()
	t.Cleanup(func() {
		if err := errors.Join(c.redirect.Close(), c.socket.Close(), c.umem.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// take collects the frames that have arrived.
func (c *captor) take() {
	var batch [64]xsk.Desc
	for n := c.socket.Receive(batch[:]); n > 0; n = c.socket.Receive(batch[:]) {
		for _, d := range batch[:n] {
			c.part = append(c.part, c.umem.Bytes(d)...)
			c.umem.Give(d.Addr)
			if d.Flags&xsk.Continues != 0 {
				continue
			}
			if len(c.part) >= 12 && c.part[6] == 2 && c.part[11] == 1 { // from the stream's MAC address, not the kernel's own
				c.frames = append(c.frames, c.part)
			}
			c.part = nil
		}
		c.socket.Fill()
	}
}

// wait collects until there are n frames.
func (c *captor) wait(n int) [][]byte {
	c.t.Helper()
	testutil.Eventually(c.t, 10*time.Second, "arrival of the frames", func() bool {
		c.take()
		return len(c.frames) >= n
	})
	return c.frames
}

// collect sends a schedule and returns its frames by stream, in their order.
func (r *rig) collect(t testing.TB, mechanism string, schedule tester.Schedule, frames int) ([][]byte, tester.Generation) {
	t.Helper()
	c := r.capture(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running, err := StartWith(ctx, r.port, schedule, mechanism)
	if err != nil {
		t.Fatal(err)
	}
	got := c.wait(frames)
	g, err := running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	c.take()
	return got, g
}
