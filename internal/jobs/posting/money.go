package posting

import (
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Salary is what a board states in numbers. Nil, zero and negative ends are
// unknown; without any end there is nothing stated, and ok is false. Currency
// and period are words or codes for them.
func Salary(low, high *float64, currency, period string) (pay Pay, ok bool) {
	low, high = known(low), known(high)
	if low == nil && high == nil {
		return Pay{}, false
	}
	if low != nil && high != nil && *low > *high {
		low, high = high, low
	}
	return Pay{Kind: "salary", Min: low, Max: high, Currency: currencyOf(currency), Period: periodOf(period), Source: "stated"}, true
}

// Cents are an amount in hundredths.
func Cents(n int64) *float64 {
	amount := float64(n) / 100
	return &amount
}

// Amount reads a number that a board wrote as text ("60000.00", "60,000", "60k");
// nil if it is none.
func Amount(s string) *float64 {
	s = stuck.ReplaceAllString(strings.TrimSpace(s), "$1 $2")
	match := amount.FindStringSubmatch(s)
	if match == nil || match[0] != s {
		return nil
	}
	return value(match[1], match[2])
}

func known(amount *float64) *float64 {
	if amount == nil || *amount <= 0 || *amount > 1e12 {
		return nil
	}
	return amount
}

// amount is a number with its grouping and what multiplies it.
var amount = regexp.MustCompile(`(?i)(\d+(?:[.,'’\x{a0}\x{202f}\x{2009} ]\d{3}\b)*(?:[.,]\d{1,2}\b)?|\d+[.,]\d+)\s?(k\b|m\b|mio\b|lpa\b|lakhs?\b|tys\b|mil\b|thousand\b)?`)

func value(digits, suffix string) *float64 {
	digits = strings.NewReplacer(" ", "", "'", "", "’", "", "\u00a0", "", "\u202f", "", "\u2009", "").Replace(digits)
	last := strings.LastIndexAny(digits, ".,")
	if last >= 0 {
		whole, rest := digits[:last], digits[last+1:]
		whole = strings.NewReplacer(".", "", ",", "").Replace(whole)
		// Three digits after the mark are a group ("60.000"); a factor after
		// them makes them a fraction ("1.125M").
		if len(rest) == 3 && suffix == "" {
			digits = whole + rest
		} else {
			digits = whole + "." + rest
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return nil
	}
	switch strings.ToLower(suffix) {
	case "k", "tys", "mil", "thousand":
		n *= 1e3
	case "m", "mio":
		n *= 1e6
	case "lpa", "lakh", "lakhs":
		n *= 1e5
	}
	return &n
}

var (
	hasSigns   = regexp.MustCompile(`(?i)[€£$¥₹₩₽₺₪₫₴฿円]|zł|kč|\d\s?kr\b|\b(?:lpa|lakhs?)\b`)
	retirement = regexp.MustCompile(`(?i)\b401\s?\(?k\)?|\b403\s?\(?b\)?`)
	percents   = regexp.MustCompile(`\d+(?:[.,]\d+)?\s?%`)
	stuck      = regexp.MustCompile(`(\d)([kKmM]\b)`)
	isoCode    = regexp.MustCompile(`\d\s?[kKmM]?\s?([A-Z]{3})\b|\b([A-Z]{3})\s?[€£$]?\s?\d`)
	upTo       = regexp.MustCompile(`(?i)\b(?:up to|max(?:imum)?|bis(?: zu)?|jusqu['’]à|hasta|até|fino a|tot|upto)\W{0,4}\s*$`)
	orAbove    = regexp.MustCompile(`^(?:\+|\s?(?i:and up|or more|and above))`)
	startsAt   = regexp.MustCompile(`(?i)\b(?:from|starting at|starts at|min(?:imum)?|ab|à partir de|desde|a partir de|vanaf|da|at least)\W{0,4}\s*$`)
	joins      = regexp.MustCompile(`(?i)^[^\d\pL]*(?:(?:to|bis|à|a|até|tot|and|do)\b[^\d\pL]*)?(?:(?:usd|eur|gbp|chf|pln|cad|aud|sek|nok|dkk|inr|us|ca|au|r|zł)\b?[^\d\pL]*)?$|^[^\d\pL]*(?:usd|eur|gbp|chf|pln|cad|aud|sek|nok|dkk|inr)[^\d\pL]*(?:(?:to|bis|à|a)\b[^\d\pL]*)?$`)
)

// SalaryText reads a salary from words ("€90K – €120K", "up to $36k", "50 000 -
// 60 000 PLN per month"), and keeps them. Numbers are money beside a currency;
// without one, thousands a week, month or year, and a "k" that says a range or a
// limit or stands alone. If the words say no amount, ok is false.
func SalaryText(s string) (pay Pay, ok bool) {
	text := Text(s)
	if text == "" || len(text) > 300 || !strings.ContainsAny(text, "0123456789") {
		return Pay{}, false
	}
	read := stuck.ReplaceAllString(text, "$1 $2")
	read = percents.ReplaceAllString(retirement.ReplaceAllString(read, " "), " ")
	at := amount.FindAllStringSubmatchIndex(read, 2)
	if len(at) == 0 {
		return Pay{}, false
	}
	number := func(i int) (n *float64, thousands bool) {
		suffix := ""
		if at[i][4] >= 0 {
			suffix = read[at[i][4]:at[i][5]]
		}
		// "90-120k": the factor of the second is the first one's too.
		if suffix == "" && i == 0 && len(at) > 1 && at[1][4] >= 0 {
			if plain := value(read[at[0][2]:at[0][3]], ""); plain != nil && *plain < 1000 {
				suffix = read[at[1][4]:at[1][5]]
			}
		}
		return known(value(read[at[i][2]:at[i][3]], suffix)), suffix != ""
	}
	first, thousands := number(0)
	if first == nil {
		return Pay{}, false
	}
	pay = Pay{Kind: "salary", Currency: currencyOf(text), Period: periodOf(text), Source: "text", Text: text}
	before, after := strings.TrimRight(read[:at[0][0]], "€£$¥₹ "), read[at[0][1]:]
	beside := false // more words than those that say how the amount is meant
	switch {
	case len(at) > 1 && joins.MatchString(read[at[0][1]:at[1][0]]):
		pay.Min = first
		pay.Max, _ = number(1)
		if pay.Max != nil && *pay.Max < *pay.Min {
			pay.Min, pay.Max = pay.Max, pay.Min
		}
	case upTo.MatchString(before):
		pay.Max = first
	case orAbove.MatchString(after), startsAt.MatchString(before):
		pay.Min = first
	default:
		pay.Min, pay.Max = first, first
		beside = strings.TrimSpace(before+after) != ""
	}
	money := pay.Currency != "" || hasSigns.MatchString(text) || *first >= 1000 && slices.Contains(periods[2:], pay.Period) || thousands && !beside
	if !money {
		return Pay{}, false
	}
	return pay, true
}

// signs are the currency signs that stand for one currency. "$", "¥" and "kr"
// stand for several, and stay unknown.
var signs = []struct{ sign, code string }{
	{"US$", "USD"}, {"CA$", "CAD"}, {"C$", "CAD"}, {"AU$", "AUD"}, {"A$", "AUD"}, {"NZ$", "NZD"}, {"HK$", "HKD"}, {"S$", "SGD"},
	{"MX$", "MXN"}, {"R$", "BRL"}, {"NT$", "TWD"}, {"€", "EUR"}, {"£", "GBP"}, {"₹", "INR"}, {"₩", "KRW"}, {"₽", "RUB"},
	{"₺", "TRY"}, {"₪", "ILS"}, {"₫", "VND"}, {"₴", "UAH"}, {"฿", "THB"}, {"zł", "PLN"}, {"Kč", "CZK"}, {"円", "JPY"},
}

// currencyOf finds the ISO 4217 code that s is, has beside a number, or shows by
// an unmistakable sign; "" if there is none.
func currencyOf(s string) string {
	if code := strings.ToUpper(strings.TrimSpace(s)); iso4217[code] {
		return code
	}
	for _, match := range isoCode.FindAllStringSubmatch(s, -1) {
		if code := match[1] + match[2]; iso4217[code] && !slices.Contains(wordCodes, code) {
			return code
		}
	}
	for _, sign := range signs {
		if strings.Contains(s, sign.sign) {
			return sign.code
		}
	}
	return ""
}

// wordCodes are codes that are seldom meant in a text.
var wordCodes = []string{"ALL", "CUP", "TOP", "TRY"}

var iso4217 = func() map[string]bool {
	codes := make(map[string]bool)
	for code := range strings.FieldsSeq(`AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP
		BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ
		GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD
		MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON
		RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
		USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG`) {
		codes[code] = true
	}
	return codes
}()

var periods = []string{"hour", "day", "week", "month", "year"}

var periodWords = newLexicon(
	`hour, hours, hourly, hr, ph, stunde, stündlich, heure, hora, ora, uur, per h`,
	`day, days, daily, pd, tag, täglich, jour, día, dia, giorno, dag, dzień`,
	`week, weeks, weekly, wk, woche, semaine, semana, settimana`,
	`month, months, monthly, mo, pm, mth, monat, monatlich, mois, mensuel, mes, mensual, mês, mensal, mese, maand, miesiąc, miesięcznie, mies`,
	`year, years, yearly, annual, annually, annum, yr, pa, p a, jahr, jährlich, année, annuel, año, anual, ano, anno, jaar, rok, rocznie, lpa,
		par an, per an`,
)

// Chinese and Japanese do not part words.
var periodSigns = map[string]string{"時給": "hour", "/時": "hour", "日給": "day", "週給": "week", "月給": "month", "月薪": "month", "年収": "year", "年薪": "year"}

// periodOf finds the period that s is or names: "hour", "day", "week", "month",
// "year", or "" if it names none, or several.
func periodOf(s string) string {
	if len(s) > 300 {
		return ""
	}
	found := periodWords.groups(strings.ReplaceAll(s, "/", " per "))
	switch bits.OnesCount(found) {
	case 0:
		for sign, period := range periodSigns {
			if strings.Contains(s, sign) {
				return period
			}
		}
	case 1:
		return periods[bits.TrailingZeros(found)]
	}
	return ""
}
