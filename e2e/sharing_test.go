// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// Classes on a link and shapers can be added and removed in either order. An apply after kill -9 at
// any moment of such a change succeeds, and the former trees of the devices return.
func TestLinksAndLimitsByDelayInEitherOrder(t *testing.T) {
	for _, kind := range []string{"fq", "htb", "tbf"} {
		testutil.Need(t, kind, probe.Qdisc(kind))
	}
	got := box(t, `ip link add eth0 type veth peer name eth1
ip link set eth0 up
ip link set eth1 up
tc qdisc replace dev eth1 root handle 5: tbf rate 1gbit burst 100kb latency 50ms
scopes='scopes: {backups: {cgroup: /backups, egress: {rate: 70Mbit, mode: shape}}}'
link='links: {eth1: {rate: 500Mbit, classes: {best-effort: {ecn: false}, lbe: {ecn: false}}}}'
printf "version: 1\nscopes: {}\n$link\n" > links.yaml
printf "version: 1\n$scopes\n" > delay.yaml
printf "version: 1\n$scopes\n$link\n" > both.yaml
show() { for dev in eth0 eth1; do tc qdisc show dev $dev; tc class show dev $dev; done | sed 's/direct_packets_stat [0-9]*//' | grep -v 'class fq'; }
weir() { "$WEIR" "$@" --quiet >&2 || echo "weir $*: $?"; }
show > none.want
for file in links delay both; do
    weir apply $file.yaml
    show > $file.want
    weir release
    show | cmp - none.want >&2 || echo "not as before $file"
done
grep -q 'fq .* parent' both.want || echo 'no fq below a class'
grep -c '^qdisc fq .* root' delay.want
# Without a crash.
for file in links both delay both links both; do
    weir apply $file.yaml
    show | diff - $file.want >&2 || echo "applied $file, and it is not there"
done
"$WEIR" plan --quiet both.yaml | grep -o 'Nothing changes'
"$WEIR" status | grep -c enforced
weir release
show | diff - none.want >&2 || echo 'not as before'
n=0
for ms in 015 025 040 055 070 085 100 120 150 190; do
    for change in links,both both,delay delay,both both,links; do
        from=${change%,*} to=${change#*,}
        weir apply $from.yaml
        timeout -s KILL 0.$ms "$WEIR" apply --quiet $to.yaml >/dev/null 2>&1
        n=$((n + 1))
        case $((n % 3)) in 0) next=$from;; 1) next=$to;; 2) next=none;; esac
        if [ $next = none ]; then weir release; else weir apply $next.yaml; fi
        show | diff - $next.want >&2 || echo "killed after $ms ms from $from to $to, and $next is not there"
    done
done
weir release
tc qdisc show dev eth1 | grep -o 'tbf 5:'`)
	got.want(t, 0)
	want := []string{"2", "Nothing changes", "1", "tbf 5:"}
	if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q\n%s", lines, want, got.stderr)
	}
}
