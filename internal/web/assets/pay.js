// The sandbox's card form, in a dialog.

import { $, setText, show } from './dom.js';
import { money } from './format.js';

/** Wires the dialog; open() shows it for the Purchase's order. */
export function payDialog({ purchase, i18n, errorText, onDeclined }) {
  const box = $('paybox');
  let busy = false;

  const label = () => {
    const o = purchase.order;
    if (!o) return;
    setText($('paybox-pay'), busy ? i18n.t('pay.sending') : i18n.t('pay.now', { sum: money(o.total.amount, o.total.currency, i18n.lang) }));
  };
  const fail = (text) => {
    show($('paybox-error'), text !== '');
    setText($('paybox-error'), text);
  };

  $('paybox-close').addEventListener('click', () => box.close());
  box.addEventListener('close', () => $('pay').focus());
  box.addEventListener('click', (e) => {
    if (e.target === box && !busy) box.close();
  });
  $('payform').addEventListener('submit', async (e) => {
    e.preventDefault();
    if (busy) return;
    busy = true;
    fail('');
    label();
    try {
      const outcome = new FormData($('payform')).get('card');
      const result = await purchase.pay(outcome);
      if (result === 'declined') {
        fail(i18n.t('pay.declined'));
        onDeclined();
      } else {
        box.close();
      }
    } catch (err) {
      fail(errorText(err));
    } finally {
      busy = false;
      label();
    }
  });

  return {
    open() {
      fail('');
      label();
      $('payform').reset();
      box.showModal();
    },
    /** An order that has ended needs no card. */
    close() {
      if (box.open) box.close();
    },
    relabel: label,
  };
}
