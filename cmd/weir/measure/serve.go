// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/version"
	"weir/measure/archive"
	"weir/measure/server"
	"weir/measure/spool"
	"weir/measure/token"
)

// serveOptions are the flags of weir measure serve.
type serveOptions struct {
	clear, secure, metrics string
	latency                string
	cert, key              string
	acme                   server.ACME
	tokenKeys              []string
	tokenMachine           string
	selfSigned, check      bool
	spool                  string
	maxTests               int
	secureSet              bool   // --tls-listen is on the command line
	clientAddress          string // a key of addressOptions
	archive                archiveOptions
}

// addressOptions maps the values of --client-address. The prefix lengths are Measurement Lab's.
var addressOptions = map[string]spool.Privacy{"full": {}, "prefix": {Prefix4: 24, Prefix6: 64}, "none": {NoAddress: true}}

// congestionControl is that of Measurement Lab's servers.
const congestionControl = "bbr"

func newServeCommand(a *cli.App) *cobra.Command {
	var o serveOptions
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run a measurement site",
		Long: `Run a measurement site in the foreground: downloads and uploads of ndt7 and of msak's
throughput1 in clear and over TLS, msak's latency1 over UDP, and /health. Locate clients
of Measurement Lab find it at /v2/nearest/ndt/ndt7, /v2/nearest/msak/throughput1 and
/v2/nearest/msak/latency1. TLS needs a certificate; without one the site serves clear
tests only. A changed certificate file is used at once. --acme obtains and renews one;
the authority must reach port 80 (http-01) or 443 (tls-alpn-01) of the host name.

Each test leaves records in the spool, in Measurement Lab's folders and files: ndt7,
throughput1 or latency1, and of bulk tests quality1 with TCP_INFO each 10 ms. They are
durable before the client receives its Close or result. The site refuses tests above --max-tests, tests above the fair share of a client
block (/32 or /64), and all tests while the disk of the spool is full: status 429 with
Retry-After and the reason. With --token-key it refuses tests without a valid access
token (JSON Web Token with EdDSA, ES256 or RS256): status 401. --client-address changes clients' addresses before a record
reaches the disk: prefix keeps /24 and /64. With --archive, records move into bundles and
Parquet files of an archive (weir measure archive).

SIGTERM drains the site: /health is 503, new tests are refused, and running ones end.`,
		Example: `  weir measure serve --check                             check this host
  weir measure serve --cert cert.pem --key key.pem
  weir measure serve --acme ndt.example.org              a certificate from Let's Encrypt
  weir measure serve --listen :8080 --tls-listen :8443 --self-signed --spool ./spool`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.secureSet = command.Flags().Changed("tls-listen")
			if o.check {
				return o.report(command.Context(), a)
			}
			return o.run(command.Context(), a)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.clear, "listen", ":80", "address and port of clear tests; empty for none")
	flags.StringVar(&o.secure, "tls-listen", ":443", "address and port of tests over TLS; empty for none")
	flags.StringVar(&o.latency, "latency-listen", ":1053", "UDP address and port of latency tests; empty for none")
	flags.StringVar(&o.metrics, "metrics", "127.0.0.1:9990", "loopback address and port of metrics and /health; empty for none")
	flags.StringVar(&o.cert, "cert", "", "certificate chain in PEM")
	flags.StringVar(&o.key, "key", "", "key of the certificate in PEM")
	flags.StringVar(&o.acme.Host, "acme", "", "host name of a certificate from an ACME authority; accepts its terms of service")
	flags.StringVar(&o.acme.Directory, "acme-directory", "", "URL of the authority (default: Let's Encrypt)")
	flags.StringVar(&o.acme.CAFile, "acme-ca", "", "certificate in PEM that signs the authority's own TLS (default: those of the system)")
	flags.StringVar(&o.acme.Cache, "acme-cache", "", "folder of the account, certificate and key (default: .acme in the spool)")
	flags.StringArrayVar(&o.tokenKeys, "token-key", nil, "public key (JWK) of access tokens, which tests then require; repeatable")
	flags.StringVar(&o.tokenMachine, "token-machine", "", "audience of access tokens: the name of this machine")
	flags.BoolVar(&o.selfSigned, "self-signed", false, "make a certificate for a lab; clients need --insecure")
	flags.StringVar(&o.spool, "spool", "/var/spool/weir", "folder of the records")
	flags.StringVar(&o.clientAddress, "client-address", "full", "clients' addresses in records: full, prefix or none")
	o.archive.flags(flags)
	flags.IntVar(&o.maxTests, "max-tests", server.DefaultMaxTests(), "tests at the same time; the default is 25 for each CPU, not a measured capacity")
	flags.BoolVar(&o.check, "check", false, "check congestion controls, certificate, limits, clock, ports, disk and archive, and serve nothing")
	return command
}

// verify rejects flags that contradict each other.
func (o *serveOptions) verify() error {
	switch {
	case (o.cert == "") != (o.key == ""):
		return fault.New(fault.Usage, "give both", "--cert and --key belong together")
	case o.cert != "" && o.selfSigned:
		return fault.New(fault.Usage, "give one of them", "--self-signed and --cert are two certificates")
	case o.acme.Host != "" && (o.cert != "" || o.selfSigned):
		return fault.New(fault.Usage, "give one of --cert, --acme and --self-signed", "--acme and another certificate")
	case o.acme.Host == "" && (o.acme.Directory != "" || o.acme.CAFile != "" || o.acme.Cache != ""):
		return fault.New(fault.Usage, "add --acme with the host name", "--acme-directory, --acme-ca and --acme-cache belong to --acme")
	case o.maxTests < 1 || o.maxTests > 1_000_000:
		return fault.New(fault.Usage, "write --max-tests 50", "--max-tests %d is outside 1 to 1000000", o.maxTests)
	case !known(o.clientAddress):
		return fault.New(fault.Usage, "write full, prefix or none", "--client-address %q is unknown", o.clientAddress)
	case o.metrics != "" && !loopback(o.metrics):
		return fault.New(fault.Usage, "write --metrics 127.0.0.1:9990, and use a reverse proxy with TLS and authentication for other hosts",
			"--metrics %s is no loopback address and port", o.metrics)
	}
	for _, l := range []struct{ flag, address string }{{"--listen", o.clear}, {"--tls-listen", o.secure}, {"--latency-listen", o.latency}} {
		if _, _, err := net.SplitHostPort(l.address); l.address != "" && err != nil {
			return fault.New(fault.Usage, "write an address and a port, as in "+l.flag+" :8080", "%s %s: %w", l.flag, l.address, err)
		}
	}
	return nil
}

func known(clientAddress string) bool {
	_, is := addressOptions[clientAddress]
	return is
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// certificate returns the site's certificate; nil if none is given.
func (o *serveOptions) certificate(log *slog.Logger) (*server.Certificate, error) {
	switch {
	case o.acme.Host != "":
		with := o.acme
		with.Cache = cmp.Or(with.Cache, filepath.Join(o.spool, ".acme"))
		return server.NewACME(with)
	case o.selfSigned:
		return server.SelfSigned(ownNames()...)
	case o.cert != "":
		return server.LoadCertificate(o.cert, o.key, log)
	case o.secureSet && o.secure != "":
		return nil, fault.New(fault.Usage, "add --cert and --key, --acme, or --self-signed for a lab", "--tls-listen %s needs a certificate", o.secure)
	}
	return nil, nil
}

// tokens returns the verifier of access tokens; nil if the site requires none.
func (o *serveOptions) tokens() (*token.Verifier, error) {
	if len(o.tokenKeys) == 0 {
		if o.tokenMachine != "" {
			return nil, fault.New(fault.Usage, "add --token-key with the public key", "--token-machine belongs to --token-key")
		}
		return nil, nil
	}
	return token.Load(o.tokenMachine, o.tokenKeys...)
}

// ownNames are the names and addresses of this host.
func ownNames() []string {
	names := []string{"localhost"}
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		names = append(names, host)
	}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			names = append(names, prefix.Addr().WithZone("").String())
		}
	}
	return names
}

func (o *serveOptions) run(ctx context.Context, a *cli.App) (err error) {
	if err := o.verify(); err != nil {
		return err
	}
	tokens, err := o.tokens()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.Stderr, nil))
	certificate, err := o.certificate(log)
	if err != nil {
		return err
	}
	records, err := spool.Open(o.spool, spool.Options{Privacy: addressOptions[o.clientAddress]})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	if o.archive.address != "" {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := o.archive.follow(ctx, records.Dir(), log); err != nil {
			return err
		}
	}
	build := version.Read()
	config := server.Config{
		Tokens: tokens,
		Clear:  o.clear, Secure: o.secure, Latency: o.latency, Metrics: o.metrics, Certificate: certificate, MaxTests: o.maxTests, Store: records, Log: log,
		Congestion: congestionControl, Version: build.Version, Commit: build.Commit[:min(7, len(build.Commit))],
	}
	if certificate == nil {
		config.Secure = ""
	}
	site, err := server.Listen(config)
	if err != nil {
		return err
	}
	o.announce(a, site, records.Dir())
	return site.Run(ctx)
}

// announce prints the addresses of a site.
func (o *serveOptions) announce(a *cli.App, s *server.Server, dir string) {
	for _, line := range []struct {
		name    string
		address netip.AddrPort
	}{{"clear tests at ws://", s.ClearAddr()}, {"tests over TLS at wss://", s.SecureAddr()}, {"latency tests at udp://", s.LatencyAddr()}, {"metrics at http://", s.MetricsAddr()}} {
		if line.address.IsValid() {
			a.Say("%s%s", line.name, line.address)
		}
	}
	if !s.SecureAddr().IsValid() {
		a.Say("Warning: no certificate: browsers and Measurement Lab's clients use TLS unless they are configured otherwise")
	}
	a.Say("records in %s; at most %d tests", dir, o.maxTests)
	if c := server.CheckCongestion(congestionControl); c.State != server.Works {
		a.Say("Warning: %s: %s", c.Name, c.Detail)
	}
}

// checkResult is the document of --check --format json.
type checkResult struct {
	Format string         `json:"format"`
	Works  bool           `json:"works"`
	Checks []server.Check `json:"checks"`
}

// report prints the checks of this host. The exit status is 3 if the site could not serve.
func (o *serveOptions) report(ctx context.Context, a *cli.App) error {
	if err := o.verify(); err != nil {
		return err
	}
	if _, err := o.tokens(); err != nil {
		return err
	}
	certificate, certificateErr := o.certificate(slog.New(slog.DiscardHandler))
	check := server.CheckOptions{
		Clear: o.clear, Secure: o.secure, Latency: o.latency, Metrics: o.metrics, Certificate: certificate, CertificateError: certificateErr, Congestion: congestionControl, Spool: o.spool,
		MaxTests: o.maxTests, ArchiveName: o.archive.address,
	}
	if o.archive.address != "" {
		check.Archive = func(ctx context.Context) error {
			to, err := archive.Open(o.archive.address)
			if err != nil {
				return err
			}
			return to.Check(ctx)
		}
	}
	checks := server.Checks(ctx, check)
	result := checkResult{Format: "weir-measure-check/1", Works: true, Checks: checks}
	for _, c := range checks {
		result.Works = result.Works && c.State != server.Missing
	}
	if a.Format == "json" {
		if err := a.JSON(result); err != nil {
			return err
		}
	} else if err := a.Table(checkTable(checks)); err != nil {
		return err
	}
	if !result.Works {
		return fault.New(fault.Testbed, "correct the rows with the state \""+string(server.Missing)+"\"", "the site would not serve")
	}
	return nil
}
