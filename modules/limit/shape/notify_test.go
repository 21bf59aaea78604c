// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/kernel/testutil"
)

// A local TCP sender without ECN and pacing is notified, and the notification is counted.
func TestNotificationsAreCounted(t *testing.T) {
	s := newStage(t)
	shaper := s.shaper(direction.Egress, 200*time.Millisecond)
	s.do(func() error { return s.host.Apply(nil, Work{Shapers: []Shaper{shaper}, Unpaced: true}) })
	bash := testutil.Command(t, "bash")
	var listener net.Listener
	if err := s.there.Do(func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(s.address(1), 0).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	script := fmt.Sprintf("echo $$ >%s/cgroup.procs && exec cat /dev/zero >/dev/tcp/%s/%d", s.host.CgroupRoot, s.address(1), listener.Addr().(*net.TCPAddr).Port)
	sender := exec.Command(bash, "-c", script)
	s.do(sender.Start)
	defer func() { _ = sender.Wait() }()
	defer func() { _ = sender.Process.Kill() }()
	testutil.Eventually(t, time.Minute, "a notification", func() bool { return s.counters(shaper).Notified > 0 })
}
