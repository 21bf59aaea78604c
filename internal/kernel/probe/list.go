package probe

// Feature is a probe with its name.
type Feature struct {
	Group string // "namespaces", "bpf", "hooks", "qdiscs" and so on: how the list is headed
	Name  string
	Probe func() error
}

// Features lists all probes, in the order in which people read them.
func Features() []Feature {
	list := []Feature{
		{"namespaces", "network namespaces", Namespaces},
		{"namespaces", "veth", Veth},
		{"bpf", "system call", BPF},
		{"bpf", "btf", BTF},
		{"bpf", "jit", JIT},
	}
	for _, program := range programs {
		list = append(list, Feature{"bpf programs", program.name, func() error { return ProgramType(program.kind) }})
	}
	for _, m := range maps {
		list = append(list, Feature{"bpf maps", m.name, func() error { return MapType(m.kind) }})
	}
	list = append(list,
		Feature{"hooks", "xdp native on veth", XDPNative},
		Feature{"hooks", "xdp generic", XDPGeneric},
		Feature{"hooks", "xdp live frames", LiveFrames},
		Feature{"hooks", "af_xdp copy mode on veth", AFXDP},
		Feature{"hooks", "tcx", TCX},
	)
	for _, kind := range qdiscs {
		list = append(list, Feature{"qdiscs", kind, func() error { return Qdisc(kind) }})
	}
	for _, kind := range classifiers {
		list = append(list, Feature{"classifiers", kind, func() error { return Classifier(kind) }})
	}
	for _, name := range []string{"reno", "cubic", "bbr", "dctcp"} {
		list = append(list, Feature{"tcp", name, func() error { return CongestionControl(name) }})
	}
	return append(list,
		Feature{"ipv6", "ipv6", IPv6},
		Feature{"ipv6", "ioam node", IOAM6},
		Feature{"ipv6", "ioam encapsulation", IOAM6Tunnel},
		Feature{"ipv6", "srv6 encapsulation", Seg6Tunnel},
		Feature{"ipv6", "bpf encapsulation", BPFTunnel},
		Feature{"cgroups", "cgroup v2", CgroupV2},
	)
}
