package posting

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// epoch reads seconds or milliseconds since 1970: they cannot be mistaken for
// each other within this century. Zero is unknown.
func epoch(n int64) Date {
	if n >= 1e11 || n <= -1e11 {
		return instant(time.UnixMilli(n))
	}
	return instant(time.Unix(n, 0))
}

// When reads a date as boards write it: RFC 3339 and its relatives, "2026-10-01
// 08:00:00 UTC", a plain day, RFC 822, seconds or milliseconds, words ("Posted
// 30+ Days Ago", in the languages of the boards that say so). A time without a
// zone is known to the day only. Words are counted back from now, which is the
// time of the board's answer, to the midnight (UTC) of that day, so that they
// read the same all day. What cannot be read is a Date of no precision.
func When(s string, now time.Time) Date {
	s = strings.TrimSpace(s)
	if len(s) < 3 || len(s) > 100 {
		return Date{}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if len(s) == len("20261001") {
			return day(time.Parse("20060102", s))
		}
		if len(s) < 9 {
			return Date{}
		}
		return epoch(n)
	}
	if s[0] >= '0' && s[0] <= '9' || strings.Contains(s, ":") {
		for _, layout := range zoned {
			if at, err := time.Parse(layout, s); err == nil {
				return instant(at)
			}
		}
		for _, layout := range unzoned {
			if at, err := time.Parse(layout, s); err == nil {
				return day(at, nil)
			}
		}
	}
	return ago(s, now)
}

// A fraction of any length is read after the seconds of each of them.
var zoned = []string{
	time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00",
	"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 GMT", "2006-01-02 15:04:05 -0700 UTC",
	"Mon, 2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 UTC", "Mon, 2 Jan 2006 15:04:05 Z",
	"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 06 15:04:05 -0700", "Mon, 2 Jan 06 15:04:05 GMT",
	"2 Jan 06 15:04 -0700", "2 Jan 06 15:04 GMT",
}

var unzoned = []string{
	"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly, "2006/01/02", "02.01.2006",
	"2 January 2006", "2 Jan 2006", "Mon, 2 Jan 2006 15:04:05 MST", // a zone's letters alone say nothing certain
}

func instant(at time.Time) Date {
	if !plausible(at) {
		return Date{}
	}
	return Date{At: at.UTC(), Precision: Instant}
}

func day(at time.Time, err error) Date {
	if err != nil || !plausible(at) {
		return Date{}
	}
	return Date{At: midnight(at), Precision: Day}
}

// plausible refuses what stands for "unknown": the year 1, 1970, 9999.
func plausible(at time.Time) bool { return at.Year() >= 1980 && at.Year() < 2200 }

func midnight(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
}

// The words of relative dates, in lower case: English, German, French, Spanish,
// Portuguese, Italian, Dutch, Swedish, Danish, Norwegian, Polish, Czech,
// Turkish, Chinese, Japanese, Korean. Chinese, Japanese and Korean do not
// separate words, so theirs are looked for anywhere.
var (
	today = pattern(`today|just posted|just now|heute|aujourd['’]hui|hoy|hoje|oggi|vandaag|idag|i dag|dzisiaj|dziś|dnes|bugün`,
		`今天|今日|本日|오늘`)
	yesterday = pattern(`yesterday|gestern|hier|ayer|ontem|ieri|gisteren|igår|i går|wczoraj|včera|dün`, `昨天|昨日|어제`)
	orMore    = pattern(`more than|over|mehr als|über|plus de|más de|mais de|più di|oltre|meer dan|mer än|mer enn|mere end|ponad|více než|daha fazla`,
		`\+|以上|多|이상`)
	units = []struct {
		words       *regexp.Regexp
		days, month int
	}{
		{pattern(`minutes?|mins?|minuten?|minutos?|minuti|minuto|minuut|minuter|minutter|minut[ay]?|dakika`, `分钟|分鐘|分前|분`), 0, 0},
		{pattern(`hours?|hrs?|stunden?|heures?|horas?|ora|ore|uur|timm(?:e|ar)|timer?|godzin[aęy]?|hodin[ay]?|saat`, `小时|小時|時間|시간`), 0, 0},
		{pattern(`days?|tag(?:en?)?|jours?|días?|dias?|giorn[oi]|dag(?:en|ar|e|er)?|dni|dzień|dny|gün`, `天|日|일`), 1, 0},
		{pattern(`weeks?|wochen?|semaines?|semanas?|settiman[ae]|we(?:ek|ken)|veck(?:a|or)|uger?|uker?|tydzień|tygodni[ea]?|týdn[yů]|hafta`, `周|週|주`), 7, 0},
		{pattern(`months?|monat(?:en?)?|mois|mes(?:es)?|mês|mes[ei]|maand(?:en)?|månad(?:er)?|måned(?:er)?|miesi[ąę]c[ye]?|měsíc[e]?|ay`, `个月|個月|ヶ月|か月|月前|개월`), 0, 1},
		{pattern(`years?|jahr(?:en?)?|ans?|années?|años?|anos?|ann[oi]|jaar|år|rok|lat|yıl`, `年|년`), 0, 12},
	}
	count = regexp.MustCompile(`\d+`)
)

func pattern(words, anywhere string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^\pL])(?:` + words + `)(?:$|[^\pL])|` + anywhere)
}

func ago(s string, now time.Time) Date {
	s = strings.ToLower(norm.NFKC.String(s))
	number := count.FindAllString(s, 2)
	if now.IsZero() || len(number) > 1 {
		return Date{}
	}
	if len(number) == 0 {
		switch {
		case today.MatchString(s):
			return Date{At: midnight(now.UTC()), Precision: Relative}
		case yesterday.MatchString(s):
			return Date{At: midnight(now.UTC().AddDate(0, 0, -1)), Precision: Relative}
		}
		return Date{}
	}
	n, err := strconv.Atoi(number[0])
	if err != nil || n > 10_000 {
		return Date{}
	}
	date := Date{Precision: Relative}
	if orMore.MatchString(s) {
		date.Precision = AtLeast
	}
	for i, unit := range units {
		if !unit.words.MatchString(s) {
			continue
		}
		at := now.UTC()
		switch i {
		case 0:
			at = at.Add(-time.Duration(n) * time.Minute)
		case 1:
			at = at.Add(-time.Duration(n) * time.Hour)
		}
		date.At = midnight(at.AddDate(0, -n*unit.month, -n*unit.days))
		return date
	}
	return Date{}
}
