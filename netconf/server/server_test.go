// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"weir/netconf/access"
	"weir/netconf/framing"
	"weir/netconf/modules"
	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
)

// fakeDevice applies every configuration but one with the speed 999.
type fakeDevice struct {
	set     *schema.Set
	applied int
}

func (d *fakeDevice) Check(_ context.Context, config *tree.Node) *rpcerr.Error {
	if config.From("bench", "bench").Text("speed") == "998" {
		return rpcerr.New(rpcerr.InvalidValue, "998 is too fast")
	}
	return nil
}

func (d *fakeDevice) Apply(_ context.Context, _, config *tree.Node) *rpcerr.Error {
	if config.From("bench", "bench").Text("speed") == "999" {
		return rpcerr.New(rpcerr.Failed, "the device has no speed 999")
	}
	d.applied++
	return nil
}

func (d *fakeDevice) State(context.Context, *tree.Node, func(string) bool) (*tree.Node, error) {
	return tree.Make(d.set, func(m *tree.Maker) {
		m.In("bench:bench", func(m *tree.Maker) { m.In("state", func(m *tree.Maker) { m.Uint("count", 7) }) })
	}), nil
}

// rig is a server with a fake device.
type rig struct {
	*Server
	device *fakeDevice
}

func newRig(t *testing.T, dir string) *rig {
	t.Helper()
	sources := append(modules.Sources(dir != ""), schema.Source{Name: "bench@2026-01-01"})
	set, err := schema.Load(sources, modules.Files, os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	device := &fakeDevice{set: set}
	s, err := New(context.Background(), Config{
		Set: set, Device: device, Initial: tree.Root(set), StateDir: dir, Log: slog.New(slog.DiscardHandler), WriteTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &rig{s, device}
}

// client is one session.
type client struct {
	t      *testing.T
	conn   net.Conn
	reader *framing.Reader
	hello  string
	old    bool // base:1.0
	ended  chan error
}

const hello11 = `<hello xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"><capabilities><capability>urn:ietf:params:netconf:base:1.1</capability></capabilities></hello>`

func (r *rig) connect(t *testing.T, groups ...string) *client { return r.with(t, hello11, groups...) }

func (r *rig) with(t *testing.T, hello string, groups ...string) *client {
	t.Helper()
	near, far := net.Pipe()
	c := &client{t: t, conn: near, reader: framing.NewReader(near, framing.MaxMessage), ended: make(chan error, 1), old: !strings.Contains(hello, "base:1.1")}
	go func() {
		c.ended <- r.Serve(context.Background(), Peer{User: access.User{Name: "u" + strings.Join(groups, ""), Groups: groups}, Transport: "netconf-ssh"}, far)
	}()
	message, err := c.reader.Read()
	if err != nil {
		t.Fatal(err)
	}
	c.hello = string(message)
	c.write(framing.Append(nil, hello, false))
	c.reader.SetChunked(!c.old)
	t.Cleanup(func() { _ = near.Close() })
	return c
}

func (c *client) write(octets []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(octets); err != nil {
		c.t.Fatal(err)
	}
}

// raw sends a message and returns the answer.
func (c *client) raw(message string) string {
	c.t.Helper()
	c.write(framing.Append(nil, message, !c.old))
	return c.next()
}

func (c *client) next() string {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, err := c.reader.Read()
	if err != nil {
		c.t.Fatal(err)
	}
	return string(answer)
}

// rpc sends an operation and returns the content of its reply.
func (c *client) rpc(operation string) string {
	c.t.Helper()
	answer := c.raw(`<rpc xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="1">` + operation + `</rpc>`)
	const start = `<rpc-reply xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="1">`
	if !strings.HasPrefix(answer, start) {
		c.t.Fatal(answer)
	}
	return strings.TrimSuffix(strings.TrimPrefix(answer, start), "</rpc-reply>")
}

func (c *client) ok(operations ...string) {
	c.t.Helper()
	for _, o := range operations {
		if got := c.rpc(o); got != "<ok/>" {
			c.t.Fatalf("%s: %s", o, got)
		}
	}
}

// fails expects an error-tag and a text.
func (c *client) fails(operation, tag, text string) {
	c.t.Helper()
	got := c.rpc(operation)
	if !strings.Contains(got, "<error-tag>"+tag+"</error-tag>") || !strings.Contains(got, text) {
		c.t.Errorf("%s: %s, want %s and %q", operation, got, tag, text)
	}
}

func edit(config string, parameters ...string) string {
	return `<edit-config><target><candidate/></target>` + strings.Join(parameters, "") +
		`<config xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0"><bench xmlns="urn:weir:test:bench">` + config + `</bench></config></edit-config>`
}

const commit, discard = `<commit/>`, `<discard-changes/>`

func get(store string) string { return `<get-config><source><` + store + `/></source></get-config>` }

// wantData compares the content of bench in a datastore.
func (c *client) wantData(store, want string) {
	c.t.Helper()
	got := c.rpc(`<get-config><source><` + store + `/></source><filter><bench xmlns="urn:weir:test:bench"/></filter></get-config>`)
	if want = `<data><bench xmlns="urn:weir:test:bench">` + want + `</bench></data>`; got != want {
		c.t.Errorf("%s: %s, want %s", store, got, want)
	}
}

func permitAll(t *testing.T, c *client) {
	t.Helper()
	c.ok(`<edit-config><target><candidate/></target><config><nacm xmlns="urn:ietf:params:xml:ns:yang:ietf-netconf-acm"><enable-nacm>false</enable-nacm></nacm></config></edit-config>`)
}

// newOpenRig has access control switched off.
func newOpenRig(t *testing.T, dir string) (*rig, *client) {
	t.Helper()
	r := newRig(t, dir)
	r.policy = access.New(openPolicy(t, r))
	r.nacm = nil
	return r, r.connect(t)
}

func openPolicy(t *testing.T, r *rig) *tree.Node {
	t.Helper()
	return tree.Make(r.set, func(m *tree.Maker) {
		m.In("ietf-netconf-acm:nacm", func(m *tree.Maker) { m.Leaf("enable-nacm", "false") })
	})
}

func TestHello(t *testing.T) {
	r := newRig(t, "")
	c := r.connect(t)
	for _, want := range []string{"base:1.1", "candidate:1.0", "confirmed-commit:1.1", "xpath:1.0", "yang-library:1.1?revision=2019-01-04&amp;content-id=", "<session-id>1<"} {
		if !strings.Contains(c.hello, want) {
			t.Errorf("no %s in %s", want, c.hello)
		}
	}
	// old clients: no namespace, base:1.0, always message-id 1
	old := r.with(t, `<hello><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>`)
	if got := old.rpc(get("running")); got != `<data/>` && got != `<data></data>` {
		t.Error(got)
	}
	for _, bad := range []string{`<hello><capabilities/></hello>`, `<rpc/>`, `<hello`, strings.Replace(hello11, "</hello>", "<session-id>1</session-id></hello>", 1)} {
		if err := <-r.with(t, bad).ended; err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestMessages(t *testing.T) {
	_, c := newOpenRig(t, "")
	for message, want := range map[string]string{
		`<rpc xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"><get/></rpc>`: "missing-attribute",
		`<rpc message-id="1"><get/></rpc>`:                                  "malformed-message",
		`<a`:                                                                "malformed-message",
		`<!DOCTYPE a><a/>`:                                                  "malformed-message",
		`<rpc xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="1"/>`:                          "missing-element",
		`<rpc xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="1"><fly xmlns="urn:x"/></rpc>`: "operation-not-supported",
		strings.Repeat("<a>", 70) + strings.Repeat("</a>", 70):                                           "too-big",
	} {
		if got := c.raw(message); !strings.Contains(got, "<error-tag>"+want+"<") {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
	got := c.raw(`<nc:rpc xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0" xmlns:x="urn:x" message-id="a&lt;" x:y="z"><nc:close-session/></nc:rpc>`)
	if want := `<rpc-reply xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="a&lt;" xmlns:x="urn:x" x:y="z"><ok/></rpc-reply>`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

func TestCommit(t *testing.T) {
	r, c := newOpenRig(t, "")
	c.ok(edit(`<speed>+0020</speed>`))
	c.wantData("candidate", `<speed>20</speed>`)
	c.ok(commit)
	c.wantData("running", `<speed>20</speed>`)
	c.ok(edit(`<speed>30</speed>`), discard, commit)
	c.wantData("running", `<speed>20</speed>`)
	if r.device.applied != 2 { // at the start and once: equal datastores change nothing
		t.Errorf("applied %d times", r.device.applied)
	}
	c.ok(edit(`<speed>999</speed>`))
	c.fails(commit, "operation-failed", "no speed 999")
	c.wantData("running", `<speed>20</speed>`)
	c.ok(edit(`<speed>998</speed>`))
	c.fails(`<validate><source><candidate/></source></validate>`, "invalid-value", "too fast")
	c.fails(commit, "invalid-value", "too fast")
	c.fails(edit(`<speed>998</speed>`, `<test-option>test-only</test-option>`), "invalid-value", "too fast")
}

func TestLocks(t *testing.T) {
	r, c := newOpenRig(t, "")
	r.policy = access.New(openPolicy(t, r))
	other := r.connect(t)
	lock := func(store string) string { return `<lock><target><` + store + `/></target></lock>` }
	unlock := func(store string) string { return `<unlock><target><` + store + `/></target></unlock>` }
	c.ok(lock("candidate"))
	other.fails(lock("candidate"), "lock-denied", "<session-id>1</session-id>")
	other.fails(edit(`<speed>5</speed>`), "in-use", "session 1")
	other.fails(commit, "in-use", "session 1")
	other.fails(unlock("candidate"), "operation-failed", "has not locked")
	c.ok(edit(`<speed>5</speed>`), unlock("candidate"))
	c.wantDataEmpty("candidate") // unlock discards
	c.ok(edit(`<speed>5</speed>`))
	other.fails(lock("candidate"), "lock-denied", "not committed")
	c.ok(discard, lock("candidate"), edit(`<speed>5</speed>`))
	_ = c.conn.Close()
	<-c.ended
	other.ok(lock("candidate")) // the end of a session releases and discards
	other.wantDataEmpty("candidate")
}

func (c *client) wantDataEmpty(store string) {
	c.t.Helper()
	if got := c.rpc(get(store)); got != "<data></data>" {
		c.t.Errorf("%s: %s", store, got)
	}
}

func TestConfirmedCommit(t *testing.T) {
	r, c := newOpenRig(t, "")
	c.ok(edit(`<speed>5</speed>`), `<commit><confirmed/><confirm-timeout>1</confirm-timeout></commit>`)
	c.wantData("running", `<speed>5</speed>`)
	waitFor(t, func() bool { return c.rpc(get("running")) == "<data></data>" })
	c.ok(edit(`<speed>6</speed>`), `<commit><confirmed/></commit>`, commit)
	c.wantData("running", `<speed>6</speed>`)
	c.ok(edit(`<speed>7</speed>`), `<commit><confirmed/></commit>`, `<cancel-commit/>`)
	c.wantData("running", `<speed>6</speed>`)
	c.fails(`<cancel-commit/>`, "operation-failed", "no confirmed commit")
	c.ok(edit(`<speed>8</speed>`), `<commit><confirmed/><persist>x</persist></commit>`)
	other := r.connect(t)
	other.fails(commit, "invalid-value", "persist-id")
	other.fails(`<cancel-commit><persist-id>y</persist-id></cancel-commit>`, "invalid-value", "persist-id")
	other.ok(`<commit><persist-id>x</persist-id></commit>`)
	other.wantData("running", `<speed>8</speed>`)
	c.ok(edit(`<speed>9</speed>`), `<commit><confirmed/></commit>`)
	_ = c.conn.Close() // without persist, the end of the session rolls back
	<-c.ended
	other.wantData("running", `<speed>8</speed>`)
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("waited too long")
		}
	}
}

func TestStartup(t *testing.T) {
	dir := t.TempDir()
	_, c := newOpenRig(t, dir)
	permitAll(t, c)
	c.ok(edit(`<speed>5</speed><colour xmlns:x="urn:weir:test:bench">x:red</colour>`), commit,
		`<copy-config><target><startup/></target><source><running/></source></copy-config>`)
	again := newRig(t, dir).connect(t)
	again.wantData("running", `<speed>5</speed><colour>red</colour>`)
	again.ok(`<delete-config><target><startup/></target></delete-config>`)
	if got := again.rpc(get("startup")); got != "<data></data>" {
		t.Error(got)
	}
	again.fails(`<delete-config><target><running/></target></delete-config>`, "unknown-element", "running")
	again.ok(`<copy-config><target><candidate/></target><source><config><bench xmlns="urn:weir:test:bench"><speed>6</speed></bench></config></source></copy-config>`)
	again.wantData("candidate", `<speed>6</speed>`)
}

func TestGet(t *testing.T) {
	_, c := newOpenRig(t, "")
	c.ok(edit(`<port><name>a</name><rate>1</rate></port><port><name>b</name><rate>2</rate></port>`), commit)
	for filter, want := range map[string]string{
		`<filter type="xpath" xmlns:b="urn:weir:test:bench" select="/b:bench/b:port[b:rate>1]/b:rate"/>`:         `<port><name>b</name><rate>2</rate></port>`,
		`<filter><bench xmlns="urn:weir:test:bench"><state/></bench></filter>`:                                   `<state><count>7</count></state>`,
		`<filter type="subtree"><bench xmlns="urn:weir:test:bench"><port><name>a</name></port></bench></filter>`: `<port><name>a</name><rate>1</rate></port>`,
	} {
		if got := c.rpc(`<get>` + filter + `</get>`); got != `<data><bench xmlns="urn:weir:test:bench">`+want+`</bench></data>` {
			t.Errorf("%s: %s", filter, got)
		}
	}
	if got := c.rpc(`<get><filter/></get>`); got != "<data></data>" {
		t.Error(got)
	}
	c.fails(`<get><filter type="xpath" select="//["/></get>`, "invalid-value", "XPath")
	c.fails(`<get><filter type="xpath"/></get>`, "missing-attribute", "select")
	c.fails(`<get><filter type="regexp"/></get>`, "bad-attribute", "regexp")
	c.fails(`<get><unknown/></get>`, "unknown-element", "unknown")
	if got := c.rpc(`<get-schema xmlns="` + monitoringSpace + `"><identifier>bench</identifier></get-schema>`); !strings.Contains(got, "module bench {") {
		t.Error(got)
	}
	c.fails(`<get-schema xmlns="`+monitoringSpace+`"><identifier>none</identifier></get-schema>`, "invalid-value", "none")
	for _, top := range []string{"netconf-state", "yang-library", "modules-state"} {
		if got := c.rpc(`<get><filter><` + top + `/></filter></get>`); !strings.Contains(got, "bench") {
			t.Errorf("%s: %s", top, got)
		}
	}
}

func TestNotifications(t *testing.T) {
	r, c := newOpenRig(t, "")
	c.ok(`<create-subscription xmlns="` + notificationSpace + `"/>`)
	c.fails(`<create-subscription xmlns="`+notificationSpace+`"/>`, "operation-failed", "subscription")
	other := r.connect(t)
	if got := c.next(); !strings.Contains(got, "<netconf-session-start") || !strings.Contains(got, "<session-id>2<") {
		t.Error(got)
	}
	other.ok(edit(`<speed>5</speed>`), commit)
	got := c.next()
	for _, want := range []string{"<netconf-config-change", "<datastore>running<", "/b:bench", "<operation>create<", "<eventTime>"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	c.ok(get2()) // interleave
	other.ok(`<close-session/>`)
	if got := c.next(); !strings.Contains(got, "<termination-reason>closed<") {
		t.Error(got)
	}
}

func get2() string { return `<discard-changes/>` }

func TestKillSession(t *testing.T) {
	r, c := newOpenRig(t, "")
	victim := r.connect(t)
	c.fails(`<kill-session><session-id>1</session-id></kill-session>`, "invalid-value", "session-id")
	c.fails(`<kill-session><session-id>77</session-id></kill-session>`, "invalid-value", "77")
	c.ok(`<kill-session><session-id>2</session-id></kill-session>`)
	<-victim.ended
}

func TestClientThatDoesNotReadIsDisconnected(t *testing.T) {
	r := newRig(t, "")
	r.config.WriteTimeout = 50 * time.Millisecond
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(context.Background(), Peer{Transport: "netconf-ssh"}, far) }()
	if err := <-ended; err == nil {
		t.Error("the session went on")
	}
	if _, err := near.Read(make([]byte, 1)); err != io.EOF {
		t.Error(fmt.Sprint(err))
	}
}
