// Numbers, money and times as people read them. Pure functions: language and
// zone always come from the caller, never from the machine.

const numberFormats = new Map();

function currencyFormat(lang, currency) {
  const key = `${lang}|${currency}`;
  let f = numberFormats.get(key);
  if (!f) {
    f = new Intl.NumberFormat(lang, { style: 'currency', currency });
    numberFormats.set(key, f);
  }
  return f;
}

/** Fraction digits of a currency: 2 for EUR, 0 for JPY. */
export function fractionDigits(currency) {
  return currencyFormat('en', currency).resolvedOptions().maximumFractionDigits;
}

/** Minor units to text with the currency's sign: 2500, "EUR" → "€25.00". */
export function money(amount, currency, lang) {
  return currencyFormat(lang, currency).format(amount / 10 ** fractionDigits(currency));
}

/** Minor units to text with the currency's code: "25.00 EUR"; for labels read aloud. */
export function moneyCode(amount, currency, lang) {
  const digits = fractionDigits(currency);
  const n = new Intl.NumberFormat(lang, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${n.format(amount / 10 ** digits)} ${currency}`;
}

/** "€15.00 – €42.00", one price when there is one, null when there is none. */
export function priceRange(prices, currency, lang) {
  const all = Object.values(prices ?? {});
  if (all.length === 0) return null;
  const low = Math.min(...all), high = Math.max(...all);
  const text = money(low, currency, lang);
  return low === high ? text : `${text} – ${money(high, currency, lang)}`;
}

/** An instant in the hall's own zone: "Fri 5 Dec 2025, 19:30 GMT+1". */
export function when(instant, zone, lang) {
  const options = {
    weekday: 'short', day: 'numeric', month: 'short', year: 'numeric',
    hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short',
  };
  try {
    return new Intl.DateTimeFormat(locale(lang), { ...options, timeZone: zone }).format(new Date(instant));
  } catch {
    // A zone this browser does not know: UTC, and it says so.
    return new Intl.DateTimeFormat(locale(lang), { ...options, timeZone: 'UTC' }).format(new Date(instant));
  }
}

/** Day and month apart, for the date tile of a show. */
export function dateTile(instant, zone, lang) {
  const part = (options) => {
    try {
      return new Intl.DateTimeFormat(locale(lang), { ...options, timeZone: zone }).format(new Date(instant));
    } catch {
      return new Intl.DateTimeFormat(locale(lang), { ...options, timeZone: 'UTC' }).format(new Date(instant));
    }
  };
  const day = new Intl.DateTimeFormat('en', { day: 'numeric', timeZone: validZone(zone) }).format(new Date(instant));
  return { day, month: part({ month: 'short' }), weekday: part({ weekday: 'short' }), time: part({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }) };
}

function validZone(zone) {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return zone;
  } catch {
    return 'UTC';
  }
}

function locale(lang) {
  return lang === 'en' ? 'en-GB' : lang;
}

/** Milliseconds left to "m:ss"; never negative. Rounds up, so that 0:00 means over. */
export function countdown(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
}

/** A count with the language's grouping. */
export function count(n, lang) {
  return new Intl.NumberFormat(lang).format(n);
}
