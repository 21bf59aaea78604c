// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/expect"
	"weir/lab/link/loss"
)

// file is the YAML form of a scenario, used in this package only. The head describes the experiment
// and has no parameters. The rest is read once per cell, with the cell's values in place of
// ${parameters}.
type file struct {
	yamlfile.Fields `yaml:"-"`
	head
	Hosts   []nodeFile  `yaml:"hosts,required" doc:"Hosts: where flows begin and end. A host does not forward."`
	Routers []nodeFile  `yaml:"routers" doc:"Routers: they forward IPv4 and IPv6."`
	Links   []linkFile  `yaml:"links,required" doc:"Links, each between two nodes. The order gives the addresses."`
	Routes  []routeFile `yaml:"routes" doc:"Routes that are not the shortest path, one direction each."`
	Limits  []limitFile `yaml:"limits" doc:"Bandwidth limits on the traffic of hosts."`
	Phases  []phaseFile `yaml:"phases,required" doc:"What happens, one phase after the other."`
}

type head struct {
	Version     int            `yaml:"version,required" doc:"Version of the format: 1."`
	Name        string         `yaml:"name" doc:"Name in lists and bundles; the file's name without its ending if left out."`
	Title       string         `yaml:"title,required" doc:"One line that says what is measured."`
	Description string         `yaml:"description" doc:"The question that the scenario answers, and how."`
	Seed        uint64         `yaml:"seed" doc:"Seed of every random choice: losses, jitter, the order of runs. 0 and left out: 1."`
	Repetitions *int           `yaml:"repetitions" doc:"Runs of each cell that are measured; 1 if left out."`
	Attempts    *int           `yaml:"attempts" doc:"Tries per repetition before the testbed is called unfit; 3 if left out."`
	Sweep       *yamlfile.Node `yaml:"sweep" doc:"Parameters that are varied: a list of values each, or a mapping from a value's name to the variables that it sets. Every combination is a cell; the first parameter changes slowest." schema:"{\"type\":\"object\",\"additionalProperties\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"number\",\"boolean\"]}},{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\"]}}}]}}"`
	Skip        []skipFile     `yaml:"skip" doc:"Combinations of the sweep that are left out."`
	Fallback    *fallbackFile  `yaml:"fallback" doc:"One parameter of which the first value that this machine carries is used."`
	Expect      []expectFile   `yaml:"expect" doc:"Statements about the results, each of which gives a verdict."`
	Published   []published    `yaml:"published" doc:"Figures from the literature, shown beside the measurement."`
	Figures     []figureFile   `yaml:"figures" doc:"Plots of the report."`
}

type fallbackFile struct {
	yamlfile.Fields `yaml:"-"`
	Parameter       string   `yaml:"parameter,required" doc:"Name of the parameter, as in ${rate}."`
	Values          []string `yaml:"values,required" doc:"Its values, best first."`
}

// skipFile maps parameters to one value or several.
type skipFile = yamlfile.Map[wordList]

type nodeFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string               `yaml:"name,required" doc:"Name of the node."`
	Sysctls         yamlfile.Map[string] `yaml:"sysctls" doc:"Settings of the node's own network namespace, such as net.ipv4.tcp_rmem."`
	Offloads        yamlfile.Map[bool]   `yaml:"offloads" doc:"Offloads of the node's devices: tso, gso, gro, tx, rx."`
	Forwarding      string               `yaml:"forwarding" enum:"kernel,xdp,flower" doc:"What forwards a router's packets: its kernel, or Weir's offload by XDP or by tc flower in software; kernel if left out."`
	IOAM            *ioamFile            `yaml:"ioam" doc:"Makes it a node of an IOAM domain, in the words of a policy's section ioam. Interfaces are the links that end here, by their names."`
}

type linkFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string       `yaml:"name" doc:"Name of the link; \"a-b\" of its ends if left out."`
	Ends            []string     `yaml:"ends,required" doc:"The two nodes [a, b]. Forward is from a to b."`
	MTU             *int         `yaml:"mtu" doc:"Largest IP packet in octets, 1280-9000; 1500 if left out."`
	Plain           bool         `yaml:"plain" doc:"A bare virtual cable: nothing is emulated, calibrated or watched."`
	Classes         *classesFile `yaml:"classes" doc:"Classes of service at both ends of a plain link, which is then as fast as they are."`
	directionFile
	Forward *override `yaml:"forward" doc:"What differs from a to b."`
	Reverse *override `yaml:"reverse" doc:"What differs from b to a."`
}

type override struct {
	yamlfile.Fields `yaml:"-"`
	directionFile
}

// directionFile holds the impairments of a link. Pointers distinguish a missing key from a zero, so
// that overrides can be merged.
type directionFile struct {
	Rate      *units.BitRate  `yaml:"rate" doc:"Bits per second on the wire, Ethernet overhead of 24 octets per frame included; no limit if left out."`
	Delay     *units.Duration `yaml:"delay" doc:"One-way delay behind the queue."`
	Jitter    *jitterFile     `yaml:"jitter" doc:"Variation of the delay."`
	Loss      *lossFile       `yaml:"loss" doc:"Frames lost behind the queue."`
	Reorder   *share          `yaml:"reorder" doc:"Share of frames sent at once instead of delayed."`
	Duplicate *share          `yaml:"duplicate" doc:"Share of frames sent twice."`
	Corrupt   *share          `yaml:"corrupt" doc:"Share of frames with one bit inverted."`
	Schedule  *[]stepFile     `yaml:"schedule" doc:"What changes over time: steps that follow each other from the run's first phase on, and repeat."`
	Trace     *string         `yaml:"trace" doc:"What passes over time, in the format of mahimahi: the trace itself, or its file. It repeats."`
	Queue     *queueFile      `yaml:"queue" doc:"Drop-tail queue in front of the rate; 1000 packets if left out."`
}

type stepFile struct {
	yamlfile.Fields `yaml:"-"`
	For             units.Duration  `yaml:"for,required" doc:"Length of the step."`
	Rate            *units.BitRate  `yaml:"rate" doc:"Rate, at most the link's; 0 lets nothing pass. The link's if left out."`
	Delay           *units.Duration `yaml:"delay" doc:"Delay; the link's if left out."`
	Loss            *lossFile       `yaml:"loss" doc:"Loss; the link's if left out."`
}

type jitterFile struct {
	yamlfile.Fields `yaml:"-"`
	Deviation       units.Duration `yaml:"deviation,required" doc:"Half the width of a uniform distribution, the standard deviation of the others."`
	Distribution    string         `yaml:"distribution" enum:"uniform,normal,pareto" doc:"Shape of the variation; uniform if left out."`
	KeepOrder       bool           `yaml:"keep_order" doc:"No frame overtakes another."`
}

type lossFile struct {
	yamlfile.Fields `yaml:"-"`
	loss.Keys
}

type queueFile struct {
	yamlfile.Fields `yaml:"-"`
	Bytes           *units.ByteSize `yaml:"bytes" doc:"Octets of frames that may wait."`
	Packets         *int            `yaml:"packets" doc:"Frames that may wait."`
	BDP             *float64        `yaml:"bdp" doc:"Length in bandwidth-delay products of the link's rate and rtt."`
	RTT             *units.Duration `yaml:"rtt" doc:"Round-trip time of the product; if left out, the longest of any flow over the link, by the delays of its path."`
	Discipline      string          `yaml:"discipline" enum:"codel,fq_codel,pie,cake" doc:"What manages the queue: CoDel (RFC 8289), FQ-CoDel (RFC 8290), PIE (RFC 8033), by netem the kernel's own, or, where the kernel has netem and it, CAKE; nothing but its end if left out."`
	Target          *units.Duration `yaml:"target" doc:"Delay that the discipline aims at: 5ms, of PIE 15ms, if left out."`
	Interval        *units.Duration `yaml:"interval" doc:"CoDel: time for which the delay may be above its target, 100ms if left out; PIE: time between updates, 15ms if left out."`
	Mark            bool            `yaml:"mark" doc:"The discipline marks ECN-capable frames in the place of dropping them."`
	ECN             *threshold      `yaml:"ecn" doc:"Mark ECN-capable frames when more than this waits: octets, or time at the link's rate."`
}

type routeFile struct {
	yamlfile.Fields `yaml:"-"`
	From            string          `yaml:"from,required" doc:"Node that sends."`
	To              string          `yaml:"to,required" doc:"Node that is reached, by all its addresses."`
	Via             []yamlfile.Text `yaml:"via,required" doc:"Links of the path, in order from the sender."`
}

type phaseFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string         `yaml:"name" doc:"Name of the phase; \"phase 1\" and so on if left out."`
	Duration        units.Duration `yaml:"duration,required" doc:"Length of the phase."`
	Settle          units.Duration `yaml:"settle" doc:"Time at the phase's start that is left out of the figures."`
	Solo            bool           `yaml:"solo" doc:"Measure each bulk and UDP flow of the phase alone too, in runs of its own: what harm is compared with."`
	Flows           []flowFile     `yaml:"flows" doc:"TCP and UDP traffic."`
	Streams         []streamFile   `yaml:"streams" doc:"Stamped frames of the tester, each one judged."`
	Procedure       *procedureFile `yaml:"procedure" doc:"A benchmark of what lies between two hosts, in place of flows and streams; duration is the longest it may take."`
}

type flowFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string          `yaml:"name" doc:"Subject of the flow's figures; its kind if left out."`
	Kind            string          `yaml:"kind,required" enum:"bulk,request,transfers,udp,command" doc:"bulk: TCP as fast as it goes; request: TCP request and response; transfers: TCP connections that come at random and send a size each; udp: datagrams at a rate; command: what programs send."`
	From            string          `yaml:"from,required" doc:"Host that sends, or asks."`
	To              string          `yaml:"to,required" doc:"Host that receives, or answers."`
	Family          *int            `yaml:"family" doc:"4 or 6: the version of IP; 4 if left out."`
	Generator       string          `yaml:"generator" enum:"weir,iperf3" doc:"What generates the flow; if left out, what the command chooses."`
	Congestion      string          `yaml:"congestion" doc:"TCP congestion control, such as cubic or bbr; the kernel's default if left out."`
	DSCP            dscp            `yaml:"dscp" doc:"Code point 0-63 or its name."`
	ECN             bool            `yaml:"ecn" doc:"TCP asks for ECN."`
	Streams         *int            `yaml:"streams" doc:"Identical connections, or datagram streams; 1 if left out."`
	Start           units.Duration  `yaml:"start" doc:"Start after the phase's start."`
	Duration        *units.Duration `yaml:"duration" doc:"Length; up to the phase's end if left out."`
	Request         *units.ByteSize `yaml:"request" doc:"request: octets asked with; 100 if left out."`
	Response        *units.ByteSize `yaml:"response" doc:"request: octets answered with; 1000 if left out."`
	Concurrency     *int            `yaml:"concurrency" doc:"request: exchanges in flight per stream; 1 if left out."`
	Rate            *units.BitRate  `yaml:"rate" doc:"udp: payload rate of all streams together; bulk: the application's own limit."`
	Payload         *int            `yaml:"payload" doc:"udp: octets of payload per datagram; 1200 if left out."`
	Bytes           *units.ByteSize `yaml:"bytes" doc:"bulk: each stream ends after this much."`
	Sizes           *sizesFile      `yaml:"sizes" doc:"transfers: how many octets they have."`
	Most            *units.ByteSize `yaml:"most" doc:"transfers: the largest size; what would be larger has it."`
	Arrivals        *perSecond      `yaml:"arrivals" doc:"transfers: how many begin in a second, in the mean."`
	Load            *share          `yaml:"load" doc:"transfers: the part of the rate of the path's slowest link that they ask for, headers included; in place of arrivals."`
	Drain           units.Duration  `yaml:"drain" doc:"transfers: time at the flow's end in which none begins, so that the last can end."`
	Run             string          `yaml:"run" doc:"command: line for /bin/sh; the flow ends when it does."`
	RunsAt          string          `yaml:"at" enum:"from,to" doc:"command: the end at which run runs, and server at the other; from if left out."`
	Server          string          `yaml:"server" doc:"command: line for /bin/sh at the other end, started before the phase and ended with the flow."`
	Port            *int            `yaml:"port" doc:"command: port on which server listens, TCP or UDP; the phase begins when it does."`
}

type streamFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string          `yaml:"name,required" doc:"Subject of the stream's figures."`
	From            string          `yaml:"from,required" doc:"Host that sends."`
	To              string          `yaml:"to,required" doc:"Host that receives."`
	Family          *int            `yaml:"family" doc:"4 or 6: the version of IP; 4 if left out."`
	FrameSize       *int            `yaml:"frame_size" doc:"Octets of the Ethernet frame, FCS included; 128 if left out, at least 64 with IPv4 and 84 with IPv6."`
	Rate            float64         `yaml:"rate,required" doc:"Frames per second, of all count streams together."`
	Count           *int            `yaml:"count" doc:"Identical streams, 1 if left out, 1000 in a phase at most: each has a UDP port and numbers of its own, and sends in turn. Their figures are those of all together; frames are reordered and their delay varies within each."`
	DSCP            dscp            `yaml:"dscp" doc:"Code point 0-63 or its name."`
	Start           units.Duration  `yaml:"start" doc:"Start after the phase's start."`
	Duration        *units.Duration `yaml:"duration" doc:"Length; up to the phase's end if left out."`
}

type expectFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string                `yaml:"name,required" doc:"The statement, in words."`
	Metric          string                `yaml:"metric,required" doc:"Name of a metric."`
	Subject         wordList              `yaml:"subject" doc:"A flow, a stream, aggregate, a link's direction such as path forward, a node of an IOAM domain, or domain for all of them; of a list, each gets a verdict of its own, with its name behind the statement. May be left out where there is one candidate, and then means aggregate where the metric has it."`
	Where           yamlfile.Map[string]  `yaml:"where" doc:"Values of parameters: the statement is about every cell that has them; all cells if left out."`
	RelativeTo      *yamlfile.Map[string] `yaml:"relative_to" doc:"Parameters with other values: each cell is compared with the cell that has these instead, and min and max are ratios."`
	expect.Keys
}

type published struct {
	yamlfile.Fields `yaml:"-"`
	Source          string                `yaml:"source,required" doc:"Where the figure was published."`
	Metric          string                `yaml:"metric,required" doc:"Name of a metric."`
	Subject         string                `yaml:"subject" doc:"As in expect."`
	Where           yamlfile.Map[string]  `yaml:"where" doc:"Values of parameters that the figure was measured under."`
	RelativeTo      *yamlfile.Map[string] `yaml:"relative_to" doc:"The value is a ratio to the metric under these parameters."`
	Value           yamlfile.Text         `yaml:"value,required" doc:"The figure, in the metric's unit, or the ratio."`
}

type figureFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string `yaml:"name,required" doc:"File name of the plot, without ending."`
	Title           string `yaml:"title,required" doc:"What the plot shows."`
	Metric          string `yaml:"metric,required" doc:"Name of the metric that is drawn."`
	Subject         string `yaml:"subject" doc:"As in expect."`
	X               string `yaml:"x,required" doc:"Parameter along the horizontal axis; \"time\" for a time series."`
	Series          string `yaml:"series" doc:"Parameter of which each value is a curve; \"subject\" draws a curve per flow."`
	LogY            bool   `yaml:"log_y" doc:"Logarithmic vertical axis."`
}
