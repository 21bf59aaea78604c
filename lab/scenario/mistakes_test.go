// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/fault"
)

// valid is a small scenario that the tests below spoil; its lines are numbered in their
// expectations.
const valid = `version: 1
title: a test
sweep:
  loss: [0%, 1%]
  cc: [cubic, bbr]
hosts: [client, server]
routers: [gate]
links:
  - {name: access, ends: [client, gate], plain: true}
  - name: path
    ends: [gate, server]
    rate: 10Mbit
    delay: 5ms
    loss: ${loss}
phases:
  - duration: 2s
    settle: 100ms
    flows:
      - {name: bulk, kind: bulk, from: client, to: server, congestion: "${cc}"}
expect:
  - name: falls
    metric: goodput
    where: {loss: 1%}
    relative_to: {loss: 0%}
    max: 50%
`

// mistake is a replacement in the valid file and the whole message it must lead to.
type mistake struct{ name, old, new, want string }

func TestMistakes(t *testing.T) {
	if _, err := Parse("f.yaml", []byte(valid)); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(mistakesOfTopology(), mistakesOfTraffic()...) {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(valid, c.old) {
				t.Fatalf("the valid file has no %q", c.old)
			}
			_, err := Parse("f.yaml", []byte(strings.Replace(valid, c.old, c.new, 1)))
			if err == nil {
				t.Fatalf("no error, want %q", c.want)
			}
			if err.Error() != c.want {
				t.Errorf("error:\n got %q\nwant %q", err, c.want)
			}
			if fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("status %d with advice %q, want status %d with some", fault.Of(err), fault.Advice(err), fault.Usage)
			}
		})
	}
}

func mistakesOfTopology() []mistake {
	return []mistake{
		{"empty file", valid, "", "f.yaml: the file is empty"},
		{"syntax", "title: a test", "title: 'a test", "f.yaml:2: not valid YAML: found unexpected end of stream"},
		{"version", "version: 1", "version: 2", "f.yaml:1:10: version: 2 is not known here; this reads version 1"},
		{"no version", "version: 1\n", "", `f.yaml:1:1: key "version" is missing`},
		{"unknown key", "rate: 10Mbit", "rat: 10Mbit", `f.yaml:12:5: unknown key "rat" in links[1] (did you mean "rate"?)`},
		{"key twice", "    delay: 5ms", "    delay: 5ms\n    rate: 1Mbit", `f.yaml:14:5: key "rate" is given twice; the first is on line 12`},
		{"rate 0", "rate: 10Mbit", "rate: 0", "f.yaml:12:11: links[1].rate: rate 0: a link that carries nothing; leave the key out for no limit"},
		{"rate without unit", "rate: 10Mbit", "rate: 10", `f.yaml:12:11: links[1].rate: rate "10" has an unknown unit: write bit, kbit, Mbit, Gbit or Tbit, as in "200Mbit"`},
		{"negative rate", "rate: 10Mbit", "rate: -10Mbit", `f.yaml:12:11: links[1].rate: rate "-10Mbit" is negative`},
		{"loss of 101 %", "[0%, 1%]", "[0%, 101%]", `f.yaml:14:11: links[1].loss: share "101%" is outside 0 % to 100 % (with loss=101%)`},
		{"negative delay", "delay: 5ms", "delay: -5ms", `f.yaml:13:12: links[1].delay: duration "-5ms" is negative`},
		{"delay of an hour", "delay: 5ms", "delay: 1h", "f.yaml:13:12: links[1].delay: a delay of 1h0m0s is above 1m0s"},
		{"jitter above delay", "delay: 5ms", "delay: 5ms\n    jitter: 6ms", "f.yaml:14:13: links[1].jitter: a jitter of 6ms around a delay of 5ms would need frames that arrive before they are sent"},
		{"jitter shape", "delay: 5ms", "delay: 5ms\n    jitter: {deviation: 1ms, distribution: paretto}", `f.yaml:14:44: links[1].jitter.distribution: "paretto" is not one of uniform, normal, pareto (did you mean "pareto"?)`},
		{"reorder without delay", "delay: 5ms", "reorder: 1%", "f.yaml:13:14: links[1].reorder: frames are reordered by leaving out their delay, and the link has none"},
		{"two loss models", "loss: ${loss}", "loss: {independent: \"${loss}\", every_nth: 100}", "f.yaml:14:12: links[1].loss: 2 loss models are given; a direction has one"},
		{"every frame", "loss: ${loss}", "loss: {every_nth: 1}", "f.yaml:4:3: parameter \"loss\" is not used\nf.yaml:14:12: links[1].loss.every_nth: 1 loses everything or nothing; write 2 or more"},
		{"override", "loss: ${loss}", "loss: ${loss}\n    reverse: {rate: 0}", "f.yaml:15:21: links[1].reverse.rate: rate 0: a link that carries nothing; leave the key out for no limit"},
		{"queue without rate", "rate: 10Mbit", "queue: 64KiB", "f.yaml:12:12: links[1].queue: a link without a rate has no queue"},
		{"short queue", "rate: 10Mbit", "rate: 10Mbit\n    queue: 100B", "f.yaml:13:12: links[1].queue: 100 bytes hold no frame of 1514 bytes"},
		{"queue twice", "rate: 10Mbit", "rate: 10Mbit\n    queue: {bytes: 64KiB, bdp: 1}", "f.yaml:13:13: links[1].queue: bytes and bdp are two lengths for one queue"},
		{"plain with rate", "plain: true", "plain: true, rate: 1Mbit", "f.yaml:9:61: links[0].rate: a plain link emulates nothing"},
		{"MTU", "plain: true", "plain: true, mtu: 500", "f.yaml:9:60: links[0].mtu: 500 is outside 1280 to 9000"},
		{"host twice", "[client, server]\nr", "[client, server, client]\nr", `f.yaml:6:25: hosts[2]: there is a host or router "client" already`},
		{"router like a host", "routers: [gate]", "routers: [gate, {name: server}]", `f.yaml:7:24: routers[1]: there is a host or router "server" already`},
		{"host name", "[client, server]\nr", "[client, server, 'a b']\nr", "f.yaml:6:25: hosts[2]: \"a b\" is no name: use letters, digits, - and _, a letter first, 31 at most\nf.yaml:6:25: hosts[2]: no link ends at \"a b\""},
		{"no hosts", "hosts: [client, server]", "hosts: []", "f.yaml:6:8: hosts: a scenario needs at least one host\nf.yaml:9:26: links[0].ends: there is no host or router \"client\"\nf.yaml:11:11: links[1].ends: there is no host or router \"server\""},
		{"lonely host", "[client, server]\nr", "[client, server, third]\nr", `f.yaml:6:25: hosts[2]: no link ends at "third"`},
		{"sysctl of the machine", "[client, server]\nr", "[client, {name: server, sysctls: {kernel.panic: 1}}]\nr", `f.yaml:6:42: hosts[1].sysctls: "kernel.panic" does not begin with "net.": other settings belong to the whole machine`},
		{"offload", "[client, server]\nr", "[client, {name: server, offloads: {tos: true}}]\nr", `f.yaml:6:43: hosts[1].offloads: unknown offload "tos" (did you mean "tso"?)`},
		{"unknown host of a link", "ends: [client, gate]", "ends: [clint, gate]", "f.yaml:6:9: hosts[0]: no link ends at \"client\"\nf.yaml:9:26: links[0].ends: there is no host or router \"clint\" (did you mean \"client\"?)"},
		{"three ends", "ends: [client, gate]", "ends: [client, gate, server]", "f.yaml:6:9: hosts[0]: no link ends at \"client\"\nf.yaml:9:26: links[0].ends: expected two nodes, found 3"},
		{"link to itself", "ends: [gate, server]", "ends: [gate, gate]", "f.yaml:6:17: hosts[1]: no link ends at \"server\"\nf.yaml:11:11: links[1].ends: a link from \"gate\" to itself"},
		{"link twice", "name: access", "name: path", `f.yaml:10:11: links[1]: there is a link "path" already`},
		{"route over no link", "phases:", "routes: [{from: client, to: server, via: [access, pth]}]\nphases:", `f.yaml:15:51: routes[0].via[1]: there is no link "pth" (did you mean "path"?)`},
		{"route not connected", "phases:", "routes: [{from: client, to: server, via: [path]}]\nphases:", `f.yaml:15:43: routes[0].via[0]: link "path" does not end at "client", where the path has come to`},
		{"route too short", "phases:", "routes: [{from: client, to: server, via: [access]}]\nphases:", `f.yaml:15:42: routes[0].via: the path ends at "gate", not at "server"`},
		{"route too long", "phases:", "routes: [{from: client, to: gate, via: [access, path]}]\nphases:", `f.yaml:15:49: routes[0].via[1]: the path has reached "gate" before this link`},
		{"route back", "phases:", "routes: [{from: client, to: server, via: [access, access]}]\nphases:", `f.yaml:15:51: routes[0].via[1]: the path comes back to "client"`},
		{"route to itself", "phases:", "routes: [{from: client, to: client, via: [access]}]\nphases:", `f.yaml:15:29: routes[0]: a route from "client" to itself`},
		{"route to nobody", "phases:", "routes: [{from: client, to: nobody, via: [access]}]\nphases:", `f.yaml:15:29: routes[0].to: there is no host or router "nobody"`},
	}
}

func mistakesOfTraffic() []mistake {
	flow := `{name: bulk, kind: bulk, from: client, to: server, congestion: "${cc}"}`
	with := func(more string) string { return strings.TrimSuffix(flow, "}") + ", " + more + "}" }
	return []mistake{
		{"flow to itself", "to: server", "to: client", `f.yaml:19:52: phases[0].flows[0]: it goes from "client" to itself`},
		{"flow to nobody", "to: server", "to: sever", `f.yaml:19:52: phases[0].flows[0].to: there is no host or router "sever" (did you mean "server"?)`},
		{"unreachable", "hosts: [client, server]\nrouters: [gate]", "hosts: [client, server, gate]", `f.yaml:18:52: phases[0].flows[0]: there is no way from "client" to "server"`},
		{"kind", "kind: bulk", "kind: bluk", `f.yaml:19:28: phases[0].flows[0].kind: "bluk" is not one of bulk, request, transfers, udp, command (did you mean "bulk"?)`},
		{"congestion control", `"${cc}"`, `"${cc} v3"`, "f.yaml:19:72: phases[0].flows[0].congestion: \"cubic v3\" is no name of a congestion control: it has small letters, digits and _, 15 at most\n" +
			"f.yaml:19:72: phases[0].flows[0].congestion: \"bbr v3\" is no name of a congestion control: it has small letters, digits and _, 15 at most (with cc=bbr)"},
		{"DSCP", flow, with("dscp: 64"), "f.yaml:19:87: phases[0].flows[0].dscp: DSCP 64 is outside 0 to 63"},
		{"DSCP name", flow, with("dscp: af14"), `f.yaml:19:87: phases[0].flows[0].dscp: DSCP "af14" is neither a number from 0 to 63 nor a name such as "ef" or "af11" (did you mean "af11"?)`},
		{"flow family", flow, with("family: 5"), "f.yaml:19:89: phases[0].flows[0].family: 5 is neither 4 nor 6"},
		{"streams", flow, with("streams: 0"), "f.yaml:19:90: phases[0].flows[0].streams: 0 is outside 1 to 1000"},
		{"key of another kind", flow, with("payload: 100"), `f.yaml:19:90: phases[0].flows[0].payload: it has no meaning for a flow of kind "bulk"`},
		{"flow longer than phase", flow, with("start: 1s, duration: 2s"), "f.yaml:19:102: phases[0].flows[0]: it ends at 3s and the phase at 2s"},
		{"flow of no length", flow, with("duration: 0s"), "f.yaml:19:91: phases[0].flows[0].duration: 0: nothing is sent"},
		{"late flow", flow, with("start: 2s"), "f.yaml:19:88: phases[0].flows[0].start: 2s is not before the phase's end at 2s"},
		{"command without a line", flow, flow + "\n      - {kind: command, from: client, to: gate}", `f.yaml:20:10: phases[0].flows[1]: a flow of kind "command" needs a line to run`},
		{"port without server", flow, flow + "\n      - {kind: command, from: client, to: gate, run: x, port: 80}", `f.yaml:20:63: phases[0].flows[1].port: there is no server that could listen on it`},
		{"port", flow, flow + "\n      - {kind: command, from: client, to: gate, run: x, server: y, port: 65536}", `f.yaml:20:74: phases[0].flows[1].port: 65536 is outside 1 to 65535`},
		{"end of a command", flow, flow + "\n      - {kind: command, from: client, to: gate, run: x, at: there}", `f.yaml:20:61: phases[0].flows[1].at: "there" is not one of from, to`},
		{"command among others", flow, flow + "\n      - {kind: command, from: client, to: server, run: x}", `f.yaml:20:43: phases[0].flows[1].to: "server" takes part in flow "bulk" too, so the bytes of the two could not be separated`},
		{"key of a command", flow, with("server: x"), `f.yaml:19:89: phases[0].flows[0].server: it has no meaning for a flow of kind "bulk"`},
		{"udp without rate", flow, flow + "\n      - {kind: udp, from: client, to: server}", `f.yaml:20:10: phases[0].flows[1]: a flow of kind "udp" needs a rate`},
		{"udp too large", flow, flow + "\n      - {kind: udp, from: client, to: server, rate: 1Mbit, payload: 1500}", "f.yaml:20:69: phases[0].flows[1].payload: 1500 bytes is outside 32 to 1452, the size of a datagram on this path"},
		{"flow name twice", flow, flow + "\n      - " + flow, `f.yaml:20:16: phases[0].flows[1]: the name "bulk" is taken`},
		{"reserved name", "name: bulk", "name: aggregate", `f.yaml:19:16: phases[0].flows[0]: the name "aggregate" is taken`},
		{"stream too small", "    flows:", "    streams: [{name: s, from: client, to: server, family: 6, frame_size: 64, rate: 10}]\n    flows:", "f.yaml:18:74: phases[0].streams[0].frame_size: 64 bytes is outside 84 to 1518, the range of IPv6 on this path"},
		{"too many streams", "    flows:", "    streams: [{name: s, from: client, to: server, rate: 5e3, count: 600}, {name: t, from: client, to: server, rate: 5e3, count: 500}]\n    flows:", "f.yaml:18:14: phases[0].streams: 1100 of them are more than 1000"},
		{"streams of no frame", "    flows:", "    streams: [{name: s, from: client, to: server, rate: 1, count: 900}]\n    flows:", "f.yaml:18:67: phases[0].streams[0].count: not each of 900 streams sends a frame in 2s"},
		{"stream family", "    flows:", "    streams: [{name: s, from: client, to: server, family: 5, rate: 10}]\n    flows:", "f.yaml:18:59: phases[0].streams[0].family: 5 is neither 4 nor 6"},
		{"stream rate", "    flows:", "    streams: [{name: s, from: client, to: server, rate: 0}]\n    flows:", "f.yaml:18:57: phases[0].streams[0].rate: 0 frames per second is outside 0 (excluded) to 100 million"},
		{"phase of no length", "duration: 2s", "duration: 0s", "f.yaml:16:15: phases[0].duration: 0: a phase in which nothing happens"},
		{"negative duration", "duration: 2s", "duration: -2s", `f.yaml:16:15: phases[0].duration: duration "-2s" is negative`},
		{"settle", "settle: 100ms", "settle: 2s", "f.yaml:17:13: phases[0].settle: 2s leaves nothing of a phase of 2s"},
		{"unknown parameter", "${loss}", "${lss}", "f.yaml:4:3: parameter \"loss\" is not used\nf.yaml:14:11: unknown parameter ${lss} (did you mean \"loss\"?)"},
		{"unused parameter", "  cc: [cubic, bbr]", "  cc: [cubic, bbr]\n  rtt: [1ms]", `f.yaml:6:3: parameter "rtt" is not used`},
		{"discipline without rate", "rate: 10Mbit\n    delay: 5ms", "delay: 5ms\n    queue: {discipline: codel}", "f.yaml:13:13: links[1].queue: a link without a rate has no queue"},
		{"target without discipline", "delay: 5ms", "delay: 5ms\n    queue: {packets: 10, target: 5ms}", "f.yaml:14:13: links[1].queue: target, interval and mark have a meaning with a discipline alone"},
		{"discipline", "delay: 5ms", "delay: 5ms\n    queue: {discipline: codl}", `f.yaml:14:25: links[1].queue.discipline: "codl" is not one of codel, fq_codel, pie, cake (did you mean "codel"?)`},
		{"discipline with a threshold", "delay: 5ms", "delay: 5ms\n    queue: {discipline: pie, ecn: 5ms}", "f.yaml:14:13: links[1].queue.ecn: pie does not mark by queue length"},
		{"schedule faster than its link", "delay: 5ms", "delay: 5ms\n    schedule: [{for: 1s, rate: 20Mbit}]", "f.yaml:14:15: links[1].schedule: a step is faster than the link's rate of 10 Mbit/s, with which it is calibrated"},
		{"schedule of nothing", "delay: 5ms", "delay: 5ms\n    schedule: [{for: 1s, rate: 0bit}]", "f.yaml:14:15: links[1].schedule: nothing ever passes"},
		{"trace that is none", "delay: 5ms", "delay: 5ms\n    trace: |\n      3\n      2", "f.yaml:14:12: links[1].trace: line 2: 2 comes before 3"},
		{"schedule and trace", "delay: 5ms", "delay: 5ms\n    trace: 1\n    schedule: [{for: 1s}]", "f.yaml:14:12: links[1].trace: a schedule and a trace are two accounts of one rate"},
		{"no values", "loss: [0%, 1%]", "loss: []", `f.yaml:4:3: parameter "loss" has no values`},
		{"value twice", "loss: [0%, 1%]", "loss: [0%, 1%, 0%]", `f.yaml:4:3: parameter "loss" has the value "0%" twice`},
		{"value without list", "loss: [0%, 1%]", "loss: 0%", "f.yaml:4:9: sweep.loss: expected a list of values, found a single value"},
		{"too many cells", "loss: [0%, 1%]", "loss: [" + numbers(6000) + "]", "f.yaml: the sweep has more than 10000 combinations"},
		{"parameter in the head", "title: a test", "title: a ${cc}", "f.yaml:2:8: title: a ${parameter} has no value here; it does in hosts, routers, links, routes, limits, phases"},
		{"unknown skip", "hosts: [c", "skip: [{loss: 7%}]\nhosts: [c", `f.yaml:6:9: skip[0]: "7%" is not a value of "loss" (did you mean "0%"?)`},
		{"all skipped", "hosts: [c", "skip: [{loss: [0%, 1%]}]\nhosts: [c", "f.yaml:6:7: skip: no combination is left"},
		{"fallback in the sweep", "hosts: [c", "fallback: {parameter: cc, values: [cubic]}\nhosts: [c", "f.yaml:6:23: fallback: ${cc} is a parameter of the sweep already"},
		{"unknown metric", "metric: goodput", "metric: goodputt", `f.yaml:22:13: expect[0].metric: unknown metric "goodputt" (did you mean "goodput"?)`},
		{"series as figure", "metric: goodput", "metric: cwnd", `f.yaml:22:13: expect[0].metric: "cwnd" is a time series; an expectation needs a single figure`},
		{"metric that nothing has", "metric: goodput", "metric: stream_loss", "f.yaml:22:13: expect[0].metric: no flow of the scenario has a stream_loss"},
		{"unknown subject", "metric: goodput", "metric: goodput\n    subject: blk", `f.yaml:23:14: expect[0].subject: "blk" has no goodput (did you mean "bulk"?)`},
		{"unknown among subjects", "metric: goodput", "metric: goodput\n    subject: [bulk, blk]", `f.yaml:23:14: expect[0].subject: "blk" has no goodput (did you mean "bulk"?)`},
		{"subject twice", "metric: goodput", "metric: goodput\n    subject: [bulk, bulk]", `f.yaml:23:14: expect[0].subject: "bulk" is given twice`},
		{"no subject in a list", "metric: goodput", "metric: goodput\n    subject: []", `f.yaml:23:14: expect[0].subject: the list is empty`},
		{"several links", "metric: goodput", "metric: link_loss", `f.yaml:21:5: expect[0]: "link_loss" is a figure of each of several; say which by subject: "path forward", "path reverse"`},
		{"cell that is not", "where: {loss: 1%}", "where: {loss: 2%}", `f.yaml:23:13: expect[0].where: "2%" is not a value of "loss" (did you mean "0%"?)`},
		{"parameter that is not", "where: {loss: 1%}", "where: {los: 1%}", `f.yaml:23:13: expect[0].where: unknown parameter "los" (did you mean "loss"?)`},
		{"cell that is skipped", "hosts: [client, server]", "skip: [{loss: 1%, cc: cubic}, {loss: 1%, cc: bbr}]\nhosts: [client, server]", "f.yaml:22:5: expect[0]: no cell of the sweep matches where and relative_to"},
		{"no bounds", "    max: 50%\n", "", "f.yaml:21:5: expect[0]: neither min nor max is given"},
		{"bounds crossed", "max: 50%", "max: 50%\n    min: 60%", "f.yaml:26:10: expect[0]: min is above max"},
		{"bound in a wrong unit", "    relative_to: {loss: 0%}\n    max: 50%", "    max: 5ms", `f.yaml:24:10: expect[0].max: rate "5ms" has an unknown unit: write bit, kbit, Mbit, Gbit or Tbit, as in "200Mbit"`},
		{"ratio in a unit", "max: 50%", "max: 5Mbit", `f.yaml:25:10: expect[0].max: "5Mbit" is neither a number nor a percentage`},
		{"figure over nothing", "expect:", "figures: [{name: a, title: b, metric: goodput, x: rate}]\nexpect:", `f.yaml:20:51: figures[0].x: unknown parameter "rate"; known: loss, cc`},
		{"repetitions", "title: a test", "title: a test\nrepetitions: 0", "f.yaml:3:14: repetitions: 0 is outside 1 to 1000"},
	}
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		if i%500 == 499 {
			b.WriteString("\n    ")
		}
		fmt.Fprintf(&b, " %d%%", i)
	}
	return b.String()
}
