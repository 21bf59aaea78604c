// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/ssh"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/netconf/framing"
	"weir/tester/instrument"
)

// rig is a tester behind SSH, on both ends of a veth pair.
type rig struct {
	config Config
	info   Info
	key    ssh.Signer
	near   *netns.Namespace
	far    *netns.Namespace
	stop   func() // waits for the end; later calls do nothing
}

// newRig starts a tester with the users adm, op and view with one key, and pw with the password
// "secret".
func newRig(t *testing.T, model string) *rig {
	t.Helper()
	r := &rig{near: testutil.Namespace(t, "near"), far: testutil.Namespace(t, "far")}
	conn, err := rtnl.Open(r.near)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other, err := rtnl.Open(r.far)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, step := range []func() error{
		func() error { return conn.AddVeth("out", r.far, "in", 1500) }, func() error { return conn.SetUp("out") }, func() error { return other.SetUp("in") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	r.config = Config{
		Ports: []instrument.Port{{Name: "tx", Namespace: r.near, Device: "out", Speed: 1e9}, {Name: "rx", Namespace: r.far, Device: "in", Speed: 1e9}},
		Users: r.users(t), Listen: "127.0.0.1:0", Model: model, MaxDuration: time.Minute, Log: slog.New(slog.DiscardHandler),
	}
	r.start(t)
	return r
}

func (r *rig) users(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.key, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(r.key.PublicKey())))
	text := "users:\n"
	for name, group := range map[string]string{"adm": "admin", "op": "operator", "view": "viewer"} {
		text += fmt.Sprintf("  %s: {group: %s, keys: [%q]}\n", name, group, line)
	}
	text += fmt.Sprintf("  pw: {group: viewer, password: %q}\n", hash)
	path := filepath.Join(t.TempDir(), "users.yaml")
	testutil.Write(t, path, text)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *rig) start(t *testing.T) {
	t.Helper()
	ready := make(chan Info, 1)
	r.config.Ready = func(i Info) { ready <- i }
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan error, 1)
	go func() { finished <- Run(ctx, r.config) }()
	select {
	case r.info = <-ready:
	case err := <-finished:
		cancel()
		t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-finished; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
}

func (r *rig) dial(user string, auth ssh.AuthMethod) (*ssh.Client, error) {
	return ssh.Dial("tcp", r.info.Address, &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{auth}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
}

// session is a NETCONF session over SSH.
type session struct {
	t      *testing.T
	in     io.Writer
	reader *framing.Reader
}

func (r *rig) session(t *testing.T, user string) *session {
	t.Helper()
	client, err := r.dial(user, ssh.PublicKeys(r.key))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	channel, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := channel.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := channel.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.RequestSubsystem("netconf"); err != nil {
		t.Fatal(err)
	}
	s := &session{t, in, framing.NewReader(out, framing.MaxMessage)}
	s.next()
	s.write(framing.Append(nil, `<hello xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"><capabilities><capability>urn:ietf:params:netconf:base:1.1</capability></capabilities></hello>`, false))
	s.reader.SetChunked(true)
	return s
}

func (s *session) write(octets []byte) {
	s.t.Helper()
	if _, err := s.in.Write(octets); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) next() string {
	s.t.Helper()
	message, err := s.reader.Read()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(message)
}

func (s *session) rpc(operation string) string {
	s.t.Helper()
	s.write(framing.Append(nil, `<rpc xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="1">`+operation+`</rpc>`, true))
	return s.next()
}

func (s *session) ok(operations ...string) {
	s.t.Helper()
	for _, o := range operations {
		if got := s.rpc(o); !strings.Contains(got, "<ok/>") {
			s.t.Fatalf("%s: %s", o, got)
		}
	}
}

func (s *session) has(operation string, wants ...string) {
	s.t.Helper()
	got := s.rpc(operation)
	for _, want := range wants {
		if !strings.Contains(got, want) {
			s.t.Errorf("%s: %s, want %s", operation, got, want)
		}
	}
}

const commit = `<commit/>`

// edit is an edit of ports: pairs of a name and the content of its interface.
func edit(ports ...string) string {
	text := `<edit-config><target><candidate/></target><config xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0"><interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces">`
	for i := 0; i < len(ports); i += 2 {
		text += `<interface><name>` + ports[i] + `</name><type xmlns:t="urn:ietf:params:xml:ns:yang:iana-if-type">t:ethernetCsmacd</type>` + ports[i+1] + `</interface>`
	}
	return text + `</interfaces></config></edit-config>`
}

func generatorXML(content string) string {
	return `<traffic-generator xmlns="urn:ietf:params:xml:ns:yang:ietf-traffic-generator" nc:operation="replace">` + content + `</traffic-generator>`
}

func analyzerXML(content string) string {
	return `<traffic-analyzer xmlns="urn:ietf:params:xml:ns:yang:ietf-traffic-analyzer">` + content + `</traffic-analyzer>`
}

const getPorts = `<get><filter><interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"/></filter></get>`

// TestModels runs the same test through every revision of the model.
func TestModels(t *testing.T) {
	octets := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}
	for _, c := range []struct{ model, gap, data, errors string }{
		{"2026-07-02", "gap", base64.StdEncoding.EncodeToString(octets), `<testframe-statistics><pkts>100</pkts><octets>12800</octets><sequence-errors>0</sequence-errors>`},
		{"2025-11-03", "interframe-gap", fmt.Sprintf("%X", octets), `<testframe-stats><pkts>100</pkts><sequence-errors>0</sequence-errors>`},
		{"2024-10-21", "interframe-gap", fmt.Sprintf("%X", octets), `<testframe-stats><pkts>100</pkts><sequence-errors>0</sequence-errors>`},
	} {
		t.Run(c.model, func(t *testing.T) {
			s := newRig(t, c.model).session(t, "op")
			traffic := `<testframe-type>dynamic</testframe-type><frame-size>128</frame-size><frame-data>` + c.data + `</frame-data><` + c.gap + `>9872</` + c.gap + `><total-frames>100</total-frames>`
			s.ok(edit("rx", analyzerXML(``), "tx", generatorXML(traffic)), commit)
			testutil.Eventually(t, 10*time.Second, "frames", func() bool { return strings.Contains(s.rpc(getPorts), c.errors) })
			s.has(getPorts, "<samples>100</samples>", "<frames>100</frames>", "<ended>total frames</ended>", "<oper-status>up<", "<speed>1000000000<")
			s.has(`<get><filter><modules-state/></filter></get>`, "<revision>"+c.model)
		})
	}
}

func TestRejectionNamesTheLeaf(t *testing.T) {
	s := newRig(t, Models()[0]).session(t, "op")
	const base = `<frame-size>128</frame-size><gap>9872</gap>`
	for _, c := range []struct{ edit, path, text string }{
		{edit("tx", generatorXML(`<frame-size>1600</frame-size><gap>20</gap>`)), "nttg:frame-size", "MTU"},
		{edit("tx", generatorXML(base+`<frame-data>`+base64.StdEncoding.EncodeToString(make([]byte, 128))+`</frame-data>`)), "nttg:frame-data", "FCS"},
		{edit("tx", generatorXML(base+`<realtime-epoch>2020-01-01T00:00:00Z</realtime-epoch>`)), "nttg:realtime-epoch", "past"},
		{edit("tx", generatorXML(`<streams><stream><id>7</id><frame-size>64</frame-size><gap>20</gap><frames-per-stream>1</frames-per-stream><stream-gap>20</stream-gap>`+
			`<modifiers><modifier><id>3</id><action>increment</action><offset>59</offset><mask>//8=</mask><repetitions>1</repetitions></modifier></modifiers></stream></streams>`)),
			"nttg:streams/nttg:stream[nttg:id='7']/nttg:modifiers/nttg:modifier[nttg:id='3']/nttg:mask", "mask"},
		{edit("none", ``), "if:interface[if:name='none']/if:name", "no such port"},
		{edit("rx", analyzerXML(`<testframe><filter><type>bit-field-match</type><mask>/w==</mask><data>//8=</data><offset>0</offset></filter></testframe>`)), "ntta:data", "octets"},
		{edit("rx", generatorXML(`<gap>20</gap>`)), "nttg:frame-size", "mandatory"},
	} {
		s.ok(c.edit)
		s.has(commit, c.path+"</error-path>", c.text)
		s.ok(`<discard-changes/>`)
	}
}

var captured = regexp.MustCompile(`<data>[A-Za-z0-9+/=]+</data>`)

// TestRights has each group read and write: captured data is for admin alone, and the candidate
// gives nobody further rights.
func TestRights(t *testing.T) {
	r := newRig(t, Models()[0])
	op, view, adm, watcher := r.session(t, "op"), r.session(t, "view"), r.session(t, "adm"), r.session(t, "view")
	watcher.ok(`<create-subscription xmlns="urn:ietf:params:xml:ns:netconf:notification:1.0"/>`)
	adm.ok(edit("rx", analyzerXML(`<capture/>`), "tx", generatorXML(`<frame-size>64</frame-size><gap>9872</gap><total-frames>5</total-frames>`)), commit)
	for got := ""; !strings.Contains(got, "<generation-ended") || !strings.Contains(got, "<interface>tx</interface>"); {
		got = watcher.next()
	}
	testutil.Eventually(t, 10*time.Second, "captured frames", func() bool { return captured.MatchString(adm.rpc(getPorts)) })
	for _, s := range []*session{op, view} {
		if got := s.rpc(getPorts); captured.MatchString(got) || !strings.Contains(got, "<sequence-number>0<") {
			t.Errorf("captured data: %s", got)
		}
		if got := s.rpc(`<get-config><source><running/></source><filter><nacm xmlns="urn:ietf:params:xml:ns:yang:ietf-netconf-acm"/></filter></get-config>`); !strings.Contains(got, "<data></data>") {
			t.Errorf("rules: %s", got)
		}
		s.has(`<kill-session><session-id>1</session-id></kill-session>`, "access-denied")
	}
	for _, operation := range []string{edit("tx", ``), commit, `<lock><target><candidate/></target></lock>`, `<discard-changes/>`} {
		view.has(operation, "access-denied")
	}
	op.has(`<edit-config><target><candidate/></target><config><nacm xmlns="urn:ietf:params:xml:ns:yang:ietf-netconf-acm"><enable-nacm>false</enable-nacm></nacm></config></edit-config>`, "access-denied")
	adm.ok(`<edit-config><target><candidate/></target><config><nacm xmlns="urn:ietf:params:xml:ns:yang:ietf-netconf-acm"><enable-nacm>false</enable-nacm></nacm></config></edit-config>`)
	op.has(commit, "access-denied", "enable-nacm") // the commit of another user's edit
	adm.ok(`<discard-changes/>`)
}

func TestAccess(t *testing.T) {
	r := newRig(t, Models()[0])
	client, err := r.dial("pw", ssh.Password("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	channel, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Run("id"); err == nil {
		t.Error("a command ran")
	}
	if _, err := client.Dial("tcp", r.info.Address); err == nil {
		t.Error("a connection was forwarded")
	}
	if another, err := client.NewSession(); err != nil || another.RequestSubsystem("sftp") == nil {
		t.Errorf("sftp: %v", err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	unlisted, err := ssh.NewSignerFromKey(other)
	if err != nil {
		t.Fatal(err)
	}
	for user, auth := range map[string]ssh.AuthMethod{"pw": ssh.Password("wrong"), "nobody": ssh.Password("secret"), "op": ssh.PublicKeys(unlisted), "adm": ssh.Password("")} {
		if _, err := r.dial(user, auth); err == nil {
			t.Errorf("user %s got in", user)
		}
	}
}

// TestStartupWaits keeps the analyzer of the startup datastore and leaves its traffic for a commit.
func TestStartupWaits(t *testing.T) {
	r := newRig(t, Models()[0])
	r.stop()
	r.config.StateDir = t.TempDir()
	r.start(t)
	s := r.session(t, "adm")
	s.ok(edit("rx", analyzerXML(``), "tx", generatorXML(`<frame-size>64</frame-size><gap>9872</gap>`)), commit,
		`<copy-config><target><startup/></target><source><running/></source></copy-config>`)
	r.stop()
	r.start(t)
	s = r.session(t, "adm")
	if got := s.rpc(`<get-config><source><running/></source></get-config>`); !strings.Contains(got, "traffic-analyzer") || strings.Contains(got, "<traffic-generator") {
		t.Error(got)
	}
	s.has(`<get-config><source><startup/></source></get-config>`, "<traffic-generator")
}
