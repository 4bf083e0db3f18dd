import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { openWorld, skip } from './dashboard.ts'

describe('erasing a person in the dashboard', { skip }, () => {
  test('the menu of an application erases a person and shows the report', async (t) => {
    const { url, signedIn, app, message, ask } = await openWorld(t)
    await ask('PATCH', '/app/acme', { subjectPointers: ['/views'] })
    const page = await signedIn(`/app/${app.id}`)
    await page.sees('Erasures')
    await page.press('More actions')
    await page.press('Erase a person…')
    await page.sees('This cannot be undone')
    assert.deepEqual(await page.accessibilityProblems(), [])
    if (process.env.PICTURES) writeFileSync(`${process.env.PICTURES}/erase-dialog.png`, await page.picture())
    await page.fill('subject', '1.0')
    await page.press('Erase for good')
    await page.sees('1 of 1 message erased, 1 delivery cancelled')
    await page.sees('Finished')
    await page.sees('Download')
    assert.deepEqual(await page.accessibilityProblems(), [])
    if (process.env.PICTURES) writeFileSync(`${process.env.PICTURES}/erasures.png`, await page.picture())
    const rows = String(await page.evaluate('document.querySelector("[role=table]").innerText'))
    assert.match(rows, /Finished/)
    assert.doesNotMatch(rows, /\b1\.0\b/, 'the person is shown as a hash')
    await page.goto(`${url}/app/${app.id}/msg/${message.id}`)
    await page.sees('The payload was erased or has expired.')
    await page.seesNot('Resend')
    assert.deepEqual(page.complaints, [])
  })
})
