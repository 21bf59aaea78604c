// SPDX-License-Identifier: Apache-2.0

package class

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"weir/internal/dscp"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

const cs1, af11 = byte(dscp.Scavenger) << 2, byte(10) << 2

// inside starts a command in a namespace and a cgroup of the stage; it ends with the test.
func (s *stage) inside(t *testing.T, ns *netns.Namespace, group string, arguments ...string) *exec.Cmd {
	t.Helper()
	directory, err := os.Open(s.group(t, group).Path)
	must(t, err)
	defer func() { _ = directory.Close() }()
	cmd := exec.Command("nsenter", append([]string{"--net=" + netns.Path(ns.Name), "--"}, arguments...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(directory.Fd())}
	cmd.Stderr = &bytes.Buffer{}
	must(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// nginx serves a file of 300,000 bytes on port 80 over IPv4 and IPv6 in a cgroup of the stage, with
// the configuration of its package.
func (s *stage) nginx(t *testing.T, group string) {
	t.Helper()
	testutil.Command(t, "nginx")
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 300_000), 0o644))
	conf := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(conf, fmt.Appendf(nil, `daemon off; master_process off; user root; pid %[1]s/pid; error_log %[1]s/log;
events {}
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server { listen 80; listen [::]:80; root %[1]s; } }
`, dir), 0o644))
	server := s.inside(t, s.here, group, "nginx", "-e", dir+"/log", "-c", conf)
	testutil.Eventually(t, 60*time.Second, "nginx listens", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		if server.Process.Signal(syscall.Signal(0)) != nil || bytes.Contains(text, []byte("emerg")) {
			t.Fatalf("nginx has ended: %s%s", text, server.Stderr)
		}
		err := s.there.Do(func() error {
			conn, err := net.Dial("tcp", hereAddress+":80")
			if err == nil {
				err = conn.Close()
			}
			return err
		})
		return err == nil
	})
}

// drain counts the packets received by the other host by their type of service, for the port with
// the most packets, since other flows end late.
func (s *stage) drain(t *testing.T, protocol byte) map[byte]int {
	t.Helper()
	flows, most, buffer := map[uint16]map[byte]int{}, 0, make([]byte, 1<<17)
	var got map[byte]int
	for counted := map[uint16]int{}; ; {
		n, from, err := unix.Recvfrom(s.arriving, buffer, 0)
		if errors.Is(err, unix.EAGAIN) {
			return got
		}
		must(t, err)
		if link := from.(*unix.SockaddrLinklayer); link.Pkttype == unix.PACKET_OUTGOING || n < 28 {
			continue
		}
		tos, of, ok := look(t, buffer[:n])
		if !ok || of != protocol {
			continue
		}
		header := int(buffer[0]&15) * 4
		if buffer[0]>>4 == 6 {
			header = 40
		}
		port := binary.BigEndian.Uint16(buffer[header+2:])
		if flows[port] == nil {
			flows[port] = map[byte]int{}
		}
		flows[port][tos]++
		if counted[port]++; counted[port] > most {
			most, got = counted[port], flows[port]
		}
	}
}

// An unmodified nginx replies to curl with the DSCP of its requests, from the first packet on.
func TestAServerAnswersInTheClassInWhichItIsAsked(t *testing.T) {
	s := newStage(t)
	testutil.Command(t, "curl")
	s.group(t, "web")
	have := s.apply(t, module.State{}, "  web: {cgroup: /web, class: as-asked}\n")
	s.nginx(t, "web")
	for group, d := range map[string]dscp.DSCP{"bulk": dscp.LowEffort, "scavenger": dscp.Scavenger, "urgent": dscp.Expedited} {
		must(t, s.there.Do(func() error {
			marks, err := Mark(s.group(t, group).Path, d)
			if err == nil {
				t.Cleanup(func() { _ = s.there.Do(marks.Close) })
			}
			return err
		}))
	}
	for _, test := range []struct {
		description, group, url string
		want                    byte
	}{
		{"IPv4, less than best effort", "bulk", "http://" + hereAddress + "/file", le},
		{"IPv6, less than best effort", "bulk", "http://[" + hereAddress6 + "]/file", le},
		{"as QBSS knows it", "scavenger", "http://" + hereAddress + "/file", cs1},
		{"best effort", "nobody", "http://" + hereAddress + "/file", 0},
		{"nobody has answers go before others", "urgent", "http://[" + hereAddress6 + "]/file", 0},
	} {
		t.Run(test.description, func(t *testing.T) {
			s.drain(t, unix.IPPROTO_TCP)
			curl := s.inside(t, s.there, test.group, "curl", "-sgSfo", "/dev/null", test.url)
			if err := curl.Wait(); err != nil {
				t.Fatalf("curl: %v\n%s", err, curl.Stderr)
			}
			got := s.drain(t, unix.IPPROTO_TCP)
			if got[test.want] < 3 || len(got) != 1 {
				t.Errorf("packets of the answer by type of service: %v, want %#x alone", got, test.want)
			}
		})
	}
	if got := s.counts(t, have)["web"]; got[1] == 0 || got[1] >= got[0] {
		t.Errorf("%d packets were seen and %d marked", got[0], got[1])
	}
}

// echo replies to datagrams, and to connections byte by byte, in a cgroup of the stage.
func (s *stage) echo(t *testing.T, group string) {
	t.Helper()
	testutil.Command(t, "python3")
	cmd := s.inside(t, s.here, group, "python3", "-c", `
import socket, threading
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.bind(("::", 7))
t = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
def serve(c):
    while (d := c.recv(100)): c.sendall(d)
    c.close()
def tcp():
    while True: threading.Thread(target=serve, args=t.accept()[:1], daemon=True).start()
threading.Thread(target=tcp, daemon=True).start()
while True:
    d, a = u.recvfrom(100); u.sendto(d, a)
`)
	testutil.Eventually(t, 60*time.Second, "the echo listens", func() bool {
		if cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Fatalf("the echo has ended: %s", cmd.Stderr)
		}
		return s.there.Do(func() error {
			conn, err := net.Dial("tcp", hereAddress+":7")
			if err == nil {
				err = conn.Close()
			}
			return err
		}) == nil
	})
}

// dial opens a client socket on the other host and returns a function that sets its type of
// service.
func (s *stage) dial(t *testing.T, network, to string) (conn net.Conn, ask func(tos byte)) {
	t.Helper()
	must(t, s.there.Do(func() (err error) {
		conn, err = net.Dial(network, net.JoinHostPort(to, "7"))
		return err
	}))
	t.Cleanup(func() { _ = conn.Close() })
	raw, err := conn.(syscall.Conn).SyscallConn()
	must(t, err)
	return conn, func(tos byte) {
		must(t, errors.Join(raw.Control(func(fd uintptr) {
			if net.ParseIP(to).To4() != nil {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, int(tos))
			} else {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(tos))
			}
		}), err))
	}
}

// The class changes with the next request; flows of one client have separate classes.
func TestAClientChangesItsMind(t *testing.T) {
	s := newStage(t)
	s.group(t, "echo")
	s.apply(t, module.State{}, "  echo: {cgroup: /echo, class: as-asked, asked: [lbe, AF11]}\n")
	s.echo(t, "echo")
	for _, to := range []string{hereAddress, hereAddress6} {
		for network, protocol := range map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP} {
			t.Run(network+" "+to, func(t *testing.T) {
				conn, ask := s.dial(t, network, to)
				other, _ := s.dial(t, network, to)
				for i, tos := range []byte{0, le, af11, cs1, le | 1, 0} {
					want := tos &^ 3
					if want == cs1 {
						want = 0 // not accepted
					}
					ask(tos)
					exchange(t, other)
					s.drain(t, protocol)
					exchange(t, conn)
					if got := s.drain(t, protocol); got[want] == 0 || len(got) != 1 {
						t.Errorf("%d: asked with %#x: answers by type of service %v, want %#x", i, tos, got, want)
					}
					exchange(t, other)
					if got := s.drain(t, protocol); got[0] == 0 || len(got) != 1 {
						t.Errorf("%d: another flow, which did not ask: %v", i, got)
					}
				}
			})
		}
	}
}

// exchange sends a byte and waits for the reply.
func exchange(t *testing.T, conn net.Conn) {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(60*time.Second)))
	_, err := conn.Write([]byte("x"))
	must(t, err)
	_, err = conn.Read(make([]byte, 1))
	must(t, err)
}

// Changing a policy to as-asked and back keeps the counters and leaves nothing behind.
func TestAnswersComeAndGoWithThePolicy(t *testing.T) {
	s := newStage(t)
	s.echo(t, "echo")
	const fixed, asked = "  echo: {cgroup: /echo, class: cs2}\n", "  echo: {cgroup: /echo, class: as-asked, shadow: true}\n"
	have := s.apply(t, module.State{}, fixed)
	conn, ask := s.dial(t, "udp", hereAddress)
	ask(le)
	answer := func(want byte) {
		t.Helper()
		s.drain(t, unix.IPPROTO_UDP)
		exchange(t, conn)
		if got := s.drain(t, unix.IPPROTO_UDP); !maps.Equal(got, map[byte]int{want: 1}) {
			t.Errorf("answers by type of service %v, want %#x", got, want)
		}
	}
	answer(16 << 2)
	before := s.counts(t, have)["echo"]
	have = s.apply(t, have, asked)
	answer(0)
	if got := s.counts(t, have)["echo"]; got[0] != before[0]+1 || got[1] != before[1]+1 {
		t.Errorf("in shadow %v after %v packets and marked", got, before)
	}
	have = s.apply(t, have, "  echo: {cgroup: /echo, class: as-asked}\n")
	answer(le)
	s.apply(t, have, fixed)
	answer(16 << 2)
}

func TestWhatMayBeAskedIsRead(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"  a: {host: true, class: lbe, asked: [lbe]}\n", "as-asked alone"},
		{"  a: {host: true, asked: [lbe]}\n", "as-asked alone"},
		{"  a: {host: true, class: as-asked, asked: [AF99]}\n", `"AF99" is no class`},
		{"  a: {host: true, class: as-aksed}\n", "as-asked"},
	} {
		if _, err := parse(test.text); err == nil || !bytes.Contains([]byte(err.Error()), []byte(test.want)) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
}
