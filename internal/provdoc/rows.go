package provdoc

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// Row is one fact about a provider. Code in its text stands between backticks.
type Row struct{ Label, Text string }

// Rows says about a provider what is not so for most of them, and what has to be known in any case.
func Rows(p *verify.Provider) []Row {
	var rows []Row
	add := func(label, text string) {
		if text != "" {
			rows = append(rows, Row{label, text})
		}
	}
	add("Also called", codes(p.Aliases, ", "))
	add("Secret", secret(p))
	add("Signature", signature(p))
	add("Event", eventFacts(p))
	add("Dedupe", dedupe(p))
	if p.MaxBody > 0 {
		add("Largest body", Size(p.MaxBody))
	}
	if !slices.Equal(p.Methods, []string{http.MethodPost}) {
		add("Methods", strings.Join(p.Methods, ", "))
	}
	add("Answer", answers(p))
	add("Handshake", upperFirst(strings.Join(p.Handshakes, "; ")))
	add("Options", codes(p.Options, ", "))
	add("Mind", p.Traps)
	add("Not to be queued", p.Interactive)
	if p.Unconfirmed {
		add("Unconfirmed", "this rests on other receivers or on memory; try it before relying on it")
	}
	return rows
}

func dedupe(p *verify.Provider) string {
	text := "`" + p.Dedupe + "`"
	if p.Dedupe != "off" {
		text += ", " + Duration(p.DedupeTTL)
	}
	if p.Once {
		text += "; what is signed counts once besides"
	}
	return text
}

func secret(p *verify.Provider) string {
	switch {
	case !p.Proves:
		return "none. The provider does not sign, so whoever knows the URL can send"
	case p.MinSecret > 1:
		return fmt.Sprintf("%s; at least %d characters", p.Secret, p.MinSecret)
	case p.SecretOptional && !p.Keyless:
		return p.Secret + "; without one only the handshake is answered"
	}
	return p.Secret
}

func signature(p *verify.Provider) string {
	var text []string
	if p.SignatureIn != "" {
		text = append(text, places(p.SignatureIn))
	}
	if p.Past != 0 {
		text = append(text, "time in "+places(p.TimestampIn)+", "+tolerance(p))
	}
	if p.Proves && !p.CoversBody {
		text = append(text, "**does not cover the whole body**")
	}
	return strings.Join(text, "; ")
}

func tolerance(p *verify.Provider) string {
	if p.Past == p.Future {
		return "at most " + Duration(p.Past) + " off"
	}
	limit := func(d time.Duration, side string) string {
		if d < 0 {
			return "any time " + side
		}
		return "at most " + Duration(d) + " " + side
	}
	return limit(p.Past, "ago") + ", " + limit(p.Future, "ahead")
}

func eventFacts(p *verify.Provider) string {
	var text []string
	if p.EventType != "" {
		text = append(text, "type in "+places(p.EventType))
	}
	if p.EventID != "" {
		id := "id in " + places(p.EventID)
		switch {
		case !p.IDStable:
			id += ", which may differ when it is sent again"
		case !p.IDSigned && p.Proves:
			id += ", not signed"
		}
		text = append(text, id)
	}
	return strings.Join(text, "; ")
}

func answers(p *verify.Provider) string {
	var text []string
	if p.Accepted.Status != 0 {
		text = append(text, answer(&p.Accepted))
	}
	if p.Refused.Status != 0 {
		text = append(text, "refused: "+answer(&p.Refused))
	}
	return strings.Join(text, "; ")
}

func answer(a *verify.Answer) string {
	text := strconv.Itoa(a.Status)
	if a.Body == "" {
		return text + " without a body"
	}
	return text + ", `" + a.Body + "`"
}

// places marks the places in a request as code; their alternatives and parts are words.
func places(text string) string {
	var out []string
	for alternative := range strings.SplitSeq(text, " | ") {
		out = append(out, codes(strings.Split(alternative, " + "), " and "))
	}
	return strings.Join(out, " or ")
}

func codes(words []string, between string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "`" + w + "`"
	}
	return strings.Join(quoted, between)
}

func upperFirst(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Duration is short, in the greatest unit that leaves no rest.
func Duration(d time.Duration) string {
	d = d.Round(time.Second) // a limit that is not reached is a nanosecond less
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, " days"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d > unit.of && d%unit.of == 0 || d == unit.of && unit.of < 24*time.Hour {
			return strconv.FormatInt(int64(d/unit.of), 10) + unit.name
		}
	}
	return d.String()
}

// Size is in KiB or MiB where that leaves no rest.
func Size(n int64) string {
	switch {
	case n%(1<<20) == 0:
		return strconv.FormatInt(n>>20, 10) + " MiB"
	case n%(1<<10) == 0:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
