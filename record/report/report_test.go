// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"weir/record"
	"weir/record/hist"
	"weir/record/report"
)

const hostile = `</svg></style><script>alert("x")</script><img src="http://example.com/x"> & ' -->`

func render(t *testing.T, b *record.Bundle) string {
	t.Helper()
	var page bytes.Buffer
	if err := report.New(b).Write(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// everything puts the text into every field with user input.
func everything(text string) *record.Bundle {
	labels := record.Labels{text: text, "loss": "1%"}
	h := &hist.Histogram{}
	h.Record(5)
	b := &record.Bundle{Manifest: record.Manifest{Format: record.FormatBundle, Kind: text, Name: text, Version: text,
		Command: []string{"weir", text}, Started: time.Unix(0, 0), Finished: time.Unix(60, 0),
		Machine:    record.Machine{Kernel: text, CPU: text, Distro: text, Virtual: text, Cores: 2, Memory: 1 << 30},
		Mechanisms: map[string]string{text: text}, Parameters: map[string]string{text: text}, Source: text, Notes: []string{text}}}
	b.Samples = []record.Sample{
		{Labels: labels, Subject: text, Metric: text, Unit: record.Unit(text), Repetition: 1, Attempt: 1, Value: 1, Valid: true},
		{Labels: labels, Subject: text, Metric: text, Unit: record.Unit(text), Repetition: 2, Attempt: 1, Value: 1, Reason: text}}
	b.Points = []record.Point{{Labels: labels, Subject: text, Metric: text, Unit: record.Unit(text), Repetition: 1, Attempt: 1}}
	b.Distributions = []record.Distribution{{Labels: labels, Subject: text, Metric: text, Unit: record.Unit(text), Valid: true, Histogram: h}}
	b.Verdicts = []record.Verdict{{Name: text, Labels: labels, Expected: text, Measured: text, Outcome: record.Outcome(text), Reason: text}}
	b.Tables = []record.Table{{Title: text, Note: text, Columns: []string{text}, Rows: [][]string{{text}}}}
	b.Figures = []record.Figure{{Name: text, Title: text, Subtitle: text, Kind: record.Lines, XLabel: text, YLabel: text,
		XUnit: record.Unit(text), YUnit: record.Unit(text), XNames: []string{text}, Curves: []record.Curve{{Name: text, X: []float64{0}, Y: []float64{1}}}}}
	return b
}

// A page is well-formed XML, so a strict parser sees every element of a browser.
func TestHostileTextsAreEscapedEverywhere(t *testing.T) {
	page := render(t, everything(hostile))
	allowed := " html head meta title style body header main footer section h1 h2 h3 p ul li div table caption thead tbody tr th td span " +
		"figure figcaption details summary pre code dl dt dd svg g path text "
	seen := 0
	for decoder := xml.NewDecoder(strings.NewReader(page)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if !strings.Contains(allowed, " "+token.Name.Local+" ") {
				t.Errorf("the page has an element %q", token.Name.Local)
			}
			for _, attribute := range token.Attr {
				if name := attribute.Name.Local; name == "src" || name == "href" || strings.HasPrefix(name, "on") {
					t.Errorf("the page has an attribute %s=%q", name, attribute.Value)
				}
			}
		case xml.CharData:
			seen += strings.Count(string(token), hostile)
		case xml.Comment:
			t.Errorf("the page has a comment %q", token)
		}
	}
	if seen < 20 {
		t.Errorf("the text is on the page %d times", seen)
	}
}

func TestPageNeedsNoNetwork(t *testing.T) {
	page := render(t, everything("plain"))
	page = strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, "")
	page = strings.ReplaceAll(page, `xmlns:xlink="http://www.w3.org/1999/xlink"`, "")
	for _, reference := range []string{"http:", "https:", "//cdn", "src=", "href=", "url(", "@import", "<script", "<link", "ZgotmplZ"} {
		if strings.Contains(page, reference) {
			t.Errorf("the page holds %q", reference)
		}
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("the page has no content security policy")
	}
}

func TestPageTellsTheStory(t *testing.T) {
	b := everything("loss-study")
	b.Verdicts = []record.Verdict{{Name: "a", Outcome: record.Holds}, {Name: "b", Outcome: record.Fails},
		{Name: "c", Outcome: record.NotMeasured, Reason: "too slow"}}
	b.Manifest.Stopped, b.Manifest.Kind = true, "lab"
	b.Manifest.Machine.Clock = record.InstructionClock
	b.Manifest.Command = []string{"weir", "lab", "run", "my file.yaml", "--set", "rate=1Gbit"}
	page := render(t, b)
	for _, want := range []string{
		"1 of 3 expectations does not hold, 1 of 3 could not be measured.", "This run was stopped before its end",
		"weir lab run &#39;my file.yaml&#39; --set rate=1Gbit", "weir lab rerun BUNDLE", "repetition 2, attempt 1: loss-study", `<th scope="col">`, `<th scope="row">`,
		"<figcaption>loss-study (loss-study)</figcaption>", `role="img"`, "loss-study over time", "loss-study of loss-study",
		"Values of this figure", "1.0 GiB", "<dt>virtual clock</dt><dd>one nanosecond per instruction", "prefers-color-scheme: dark", "@media print",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestHeadlines(t *testing.T) {
	for want, outcomes := range map[string][]record.Outcome{
		"No expectations were stated.":     nil,
		"The expectation holds.":           {record.Holds},
		"All 2 expectations hold.":         {record.Holds, record.Holds},
		"2 of 2 expectations do not hold.": {record.Fails, record.Fails},
		"1 of 2 could not be measured.":    {record.Holds, record.NotMeasured},
	} {
		t.Run(want, func(t *testing.T) {
			b := &record.Bundle{}
			for _, o := range outcomes {
				b.Verdicts = append(b.Verdicts, record.Verdict{Outcome: o})
			}
			if page := render(t, b); !strings.Contains(page, want) {
				t.Errorf("%v: the page lacks %q", outcomes, want)
			}
		})
	}
}

// A colour outside the style sheet would stay the same in dark mode.
func TestPageIsDarkWhereItsReaderPrefersThat(t *testing.T) {
	page := render(t, everything("plain"))
	_, sheet, _ := strings.Cut(page, "<style>")
	sheet, rest, _ := strings.Cut(sheet, "</style>")
	for _, line := range strings.Split(sheet, "\n") {
		if declaration := strings.TrimSpace(line); strings.Contains(line, "#") && !strings.HasPrefix(declaration, "--") && !strings.HasPrefix(declaration, ":root {") {
			t.Errorf("a colour is no variable: %s", declaration)
		}
	}
	if n := strings.Count(sheet, "@media screen and (prefers-color-scheme: dark)"); n != 1 {
		t.Errorf("the page has %d dark schemes", n)
	}
	if strings.Count(rest, "<svg ") != strings.Count(rest, "(prefers-color-scheme:dark)") {
		t.Error("a figure has no dark scheme")
	}
}

// On a screen of 400 pixels figures have the full width, because their letters need it.
func TestFiguresReachTheEdgesOfASmallScreen(t *testing.T) {
	page := render(t, everything("plain"))
	_, small, _ := strings.Cut(page, "@media screen and (max-width: 40rem) {")
	for _, want := range []string{"body { padding: 1.5rem 1rem 3rem; }", ".panel { margin: 0 -1rem; border-width: 1px 0;"} {
		if !strings.Contains(small, want) {
			t.Errorf("the style for small screens lacks %q", want)
		}
	}
}
